//! Ports that stay ours while a service is down.
//!
//! They lie below the range from which the kernel takes ports for outgoing connections, so a killed service finds its own free again.
//! A claim is an abstract socket name: it is seen by every test process and is gone with its holder.
//! `number + 10000` is free as well (SeaweedFS wants it).

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::process;

use crate::{Result, StackError};

const FIRST: u16 = 15_000;
const LAST: u16 = 21_999;

/// A port of 127.0.0.1 that no other test takes.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    pub fn reserve() -> Result<Port> {
        let count = u32::from(LAST - FIRST) + 1;
        // Processes begin at different places, so that they rarely meet.
        let start = process::id().wrapping_mul(97) % count;
        (0..count)
            .map(|step| FIRST + ((start + step) % count) as u16)
            .find_map(Port::claim)
            .ok_or(StackError::NoFreePort { first: FIRST, last: LAST })
    }

    /// This very port, if it is free. Unlike a reserved one it may lie where the kernel takes ports for outgoing connections.
    pub fn given(number: u16) -> Result<Port> {
        Port::take(number).ok_or(StackError::PortInUse { number })
    }

    fn claim(number: u16) -> Option<Port> {
        let port = Port::take(number)?;
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, number + 10_000)).ok()?;
        Some(port)
    }

    fn take(number: u16) -> Option<Port> {
        let name = UnixAddress::from_abstract_name(format!("floodmark-port-{number}")).ok()?;
        let claim = UnixListener::bind_addr(&name).ok()?;
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, number)).ok()?;
        Some(Port { number, _claim: claim })
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.number))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::until;

    #[test]
    fn a_port_in_use_is_refused_by_its_number() {
        let held = Port::reserve().unwrap();
        let refused = Port::given(held.number()).unwrap_err();
        assert_eq!(refused.to_string(), format!("port {} is in use", held.number()));
    }

    #[test]
    fn a_reserved_port_is_not_given_twice_while_it_is_held() {
        let held = Port::reserve().unwrap();
        assert!(Port::claim(held.number()).is_none());
        let number = held.number();
        drop(held);
        // Another test may take it before we do, and gives it back.
        assert!(until(Duration::from_secs(60), || Port::claim(number).is_some()));
    }
}
