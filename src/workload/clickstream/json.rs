//! A click as JSON, and each way to spoil it.
//!
//! Written by hand into the caller's buffer, because a bench needs a million a second from one core.
//! Doesn't know: when or why a record is spoilt.
//! Keeps: a good value has all fields in one order, about 200 bytes; `price_cents` is null (web) or left out (api) where nothing is priced.
//! Tested: clickstream/tests.rs.
use super::EventId;
use super::fates::{Purpose, redraw};
use crate::workload::Poison;

const PRODUCTS: u64 = 20_000;
const LEAST_PRICE_CENTS: u64 = 199;
const PRICES: u64 = 49_800;

pub struct Click<'a> {
    pub event_id: &'a EventId,
    pub user: u64,
    pub event_time_ms: i64,
    pub draw: u64,
}

impl Click<'_> {
    pub fn write(&self, out: &mut Vec<u8>) {
        open(out);
        self.write_event_id(out);
        self.write_action(out);
        self.write_event_time(out);
        self.write_rest(out);
    }

    pub fn write_poison(&self, poison: Poison, out: &mut Vec<u8>) {
        match poison {
            Poison::EmptyValue => {}
            Poison::BadJson => {
                self.write(out);
                out.truncate(out.len() / 2);
            }
            Poison::MissingField => {
                open(out);
                self.write_event_id(out);
                self.write_action(out);
                self.write_rest(out);
            }
            Poison::NullInRequired => {
                open(out);
                out.extend_from_slice(br#""event_id":null"#);
                self.write_action(out);
                self.write_event_time(out);
                self.write_rest(out);
            }
            Poison::WrongType => self.write_with_time(br#""soon""#, out),
            Poison::NumberTooLarge => self.write_with_time(b"9223372036854775808", out),
            Poison::InvalidUtf8 => {
                self.write(out);
                // A byte that UTF-8 never has, within the text of the event id.
                out[EVENT_ID_TEXT_AT] = 0xff;
            }
        }
    }

    fn write_with_time(&self, time: &[u8], out: &mut Vec<u8>) {
        open(out);
        self.write_event_id(out);
        self.write_action(out);
        out.extend_from_slice(br#","event_time_ms":"#);
        out.extend_from_slice(time);
        self.write_rest(out);
    }

    fn write_event_id(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#""event_id":""#);
        out.extend_from_slice(self.event_id.as_bytes());
        out.push(b'"');
    }

    /// Who did what to which product at what price.
    fn write_action(&self, out: &mut Vec<u8>) {
        let event_type = event_type(self.draw);
        let product = redraw(self.draw, Purpose::Product) % PRODUCTS;
        out.extend_from_slice(br#","user_id":"u"#);
        write_digits(self.user, 7, out);
        out.extend_from_slice(br#"","event_type":""#);
        out.extend_from_slice(event_type.as_bytes());
        out.extend_from_slice(br#"","product_id":"p"#);
        write_digits(product, 6, out);
        out.push(b'"');
        if event_type != BROWSE {
            out.extend_from_slice(br#","price_cents":"#);
            write_number(price_cents(product), out);
        } else if self.source() == WEB {
            out.extend_from_slice(br#","price_cents":null"#);
        }
    }

    fn write_event_time(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","event_time_ms":"#);
        write_number(self.event_time_ms, out);
    }

    fn write_rest(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","source":""#);
        out.extend_from_slice(self.source().as_bytes());
        out.extend_from_slice(br#"","schema_version":1}"#);
    }

    /// One in four users comes through the API.
    fn source(&self) -> &'static str {
        if self.user % 4 == 3 { API } else { WEB }
    }
}

const WEB: &str = "web";
const API: &str = "api";
const BROWSE: &str = "browse";
const EVENT_ID_TEXT_AT: usize = r#"{"event_id":""#.len();

fn open(out: &mut Vec<u8>) {
    out.push(b'{');
}

fn event_type(draw: u64) -> &'static str {
    match redraw(draw, Purpose::Action) % 100 {
        0..65 => BROWSE,
        65..85 => "add_to_cart",
        85..95 => "checkout",
        _ => "pay",
    }
}

/// A product has one price.
fn price_cents(product: u64) -> u64 {
    LEAST_PRICE_CENTS + redraw(product, Purpose::Product) % PRICES
}

fn write_number(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// At least `width` digits, zeros first.
fn write_digits(number: u64, width: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    let zeros = width.saturating_sub(digits.len());
    out.extend_from_slice(&b"0000000"[..zeros.min(7)]);
    out.extend_from_slice(digits);
}
