//! A real Postgres server. Started as root it runs as the user `postgres`, since it refuses to be root.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::geteuid;

use crate::error::Doing;
use crate::process::{Signal, run};
use crate::service::Service;
use crate::{Port, Result, StackError, until};

/// Debian keeps the server's programs here, by version.
const PROGRAMS: &str = "/usr/lib/postgresql";
const USER: &str = "postgres";
/// For the children of a killed server to notice.
const CHILDREN_LIMIT: Duration = Duration::from_secs(60);

pub struct Postgres {
    service: Service,
    port: Port,
    programs: PathBuf,
}

impl Postgres {
    pub fn start() -> Result<Postgres> {
        Postgres::start_at(Port::reserve()?)
    }

    pub fn start_at(port: Port) -> Result<Postgres> {
        let mut postgres = Postgres {
            // SIGINT is Postgres's fast shutdown; SIGTERM would wait for the clients to leave.
            service: Service::new("postgres", Signal::INT)?,
            port,
            programs: newest_programs()?,
        };
        let data = postgres.data();
        fs::create_dir(&data).doing("make the data folder")?;
        if geteuid().is_root() {
            chown(&data, Some(user_id("-u")?), Some(user_id("-g")?)).doing("hand the data folder to postgres")?;
        }
        let mut initdb = postgres.as_server_user("initdb");
        initdb.args(["--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "-D"]).arg(&data);
        run(&mut initdb)?;
        postgres.start_again()?;
        Ok(postgres)
    }

    /// Starts a stopped or killed server on the same port and data.
    pub fn start_again(&mut self) -> Result<()> {
        let mut server = self.as_server_user("postgres");
        server
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.number().to_string()])
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
            // What its processes share lies in its data folder: in /dev/shm a killed server would leave it behind.
            .args(["-c", "fsync=off", "-c", "dynamic_shared_memory_type=mmap"]);
        let mut ask = Command::new(self.programs.join("pg_isready"));
        ask.args(["-q", "-h", "127.0.0.1", "-p", &self.port.number().to_string()]);
        self.service.start(server, || ask.status().is_ok_and(|status| status.success()))
    }

    pub fn stop(&mut self) -> Result<()> {
        self.service.stop()
    }

    /// SIGKILL. Its children see that it is gone, and go too; until then they hold what the next start needs.
    pub fn kill(&mut self) -> Result<()> {
        self.service.kill()?;
        let data = self.data();
        if until(CHILDREN_LIMIT, || !works_in(&data)) {
            return Ok(());
        }
        Err(StackError::NotReady {
            service: "postgres",
            limit: CHILDREN_LIMIT,
            log: "children of a killed server".into(),
        })
    }

    pub fn create_database(&self, name: &str) -> Result<()> {
        let mut createdb = Command::new(self.programs.join("createdb"));
        createdb.args(["-h", "127.0.0.1", "-p", &self.port.number().to_string(), "-U", USER, name]);
        run(&mut createdb).map(drop)
    }

    /// Host and port, for a proxy in front of it.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// `postgres://…`; the database `postgres` is always there.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@{}/{database}", self.port.address())
    }

    pub fn jdbc_url(&self, database: &str) -> String {
        format!("jdbc:postgresql://{}/{database}?user={USER}", self.port.address())
    }

    /// Its data and its log; gone with the value.
    pub fn folder(&self) -> &Path {
        self.service.folder()
    }

    fn data(&self) -> PathBuf {
        self.service.folder().join("data")
    }

    fn as_server_user(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("setpriv");
            let (user, group) = (format!("--reuid={USER}"), format!("--regid={USER}"));
            command.args([&user, &group, "--clear-groups", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.service.folder());
        command
    }
}

/// Whether any process has this as its working directory, as all of a server's have its data folder.
fn works_in(folder: &Path) -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.into_iter().any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder))
}

fn user_id(which: &str) -> Result<u32> {
    let id = run(Command::new("id").args([which, USER]))?;
    id.trim().parse().map_err(|_| StackError::NotInstalled { what: "the user postgres" })
}

fn newest_programs() -> Result<PathBuf> {
    let versions = fs::read_dir(PROGRAMS).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|version| version.file_name().to_str()?.parse::<u32>().ok())
        .filter(|version| Path::new(PROGRAMS).join(version.to_string()).join("bin/initdb").exists())
        .max();
    let newest = newest.ok_or(StackError::NotInstalled { what: "the Postgres server" })?;
    Ok(Path::new(PROGRAMS).join(newest.to_string()).join("bin"))
}
