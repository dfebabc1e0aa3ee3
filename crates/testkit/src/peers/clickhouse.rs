//! A ClickHouse server in a folder of its own, for tests of the history.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{free_addr, wait_until};
use crate::skip::{Need, skipped};

/// The path of the server program, or of another one with the same arguments, such as
/// `clickhouse.py`. The default is a whole path, because `PATH` often lacks its folder.
fn program() -> OsString {
    std::env::var_os("DOORBELL_CLICKHOUSE_SERVER").unwrap_or_else(|| "/usr/sbin/clickhouse-server".into())
}

/// Maximum time of a start.
const START: Duration = Duration::from_secs(120);

/// A user with a password, besides the default user without one.
pub const USER: (&str, &str) = ("writer", "p w&ä");

/// A running server. Its files are removed at the end.
#[derive(Debug)]
pub struct ClickHouse {
    /// Address of the HTTP interface, the same after a restart.
    pub addr: SocketAddr,
    folder: PathBuf,
    child: Option<Child>,
}

impl ClickHouse {
    /// Starts a server; `None` if there is no such program, which is reported as a skipped test.
    ///
    /// # Panics
    /// If the server does not start.
    #[must_use]
    #[track_caller]
    pub fn start() -> Option<Self> {
        if !fs::exists(program()).is_ok_and(|exists| exists) {
            skipped(Need::Clients, format_args!("{} is not installed", program().display()));
            return None;
        }
        let (addr, tcp) = (free_addr(), free_addr());
        let name = format!("doorbell-clickhouse-{}-{}", std::process::id(), addr.port());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("data")).expect("the folder can be created");
        let path = folder.display();
        let config = format!(
            "<yandex><logger><level>warning</level><log>{path}/log</log><errorlog>{path}/errors</errorlog></logger>\
             <http_port>{}</http_port><tcp_port>{}</tcp_port><listen_host>127.0.0.1</listen_host><path>{path}/data/</path>\
             <tmp_path>{path}/tmp/</tmp_path><mark_cache_size>67108864</mark_cache_size><users_config>{path}/users.xml</users_config>\
             <default_profile>default</default_profile><default_database>default</default_database></yandex>",
            addr.port(),
            tcp.port()
        );
        let user = |name: &str, password: &str| {
            let password = password.replace('&', "&amp;");
            format!(
                "<{name}><password>{password}</password><networks><ip>127.0.0.1</ip></networks><profile>default</profile>\
                 <quota>default</quota></{name}>"
            )
        };
        let users = format!(
            "<yandex><profiles><default/></profiles><users>{}{}</users><quotas><default/></quotas></yandex>",
            user("default", ""),
            user(USER.0, USER.1)
        );
        for (name, text) in [("config.xml", config), ("users.xml", users)] {
            fs::write(folder.join(name), text).expect("the file can be written");
        }
        let mut server = Self { addr, folder, child: None };
        server.restart();
        Some(server)
    }

    /// Kills the server by SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone = child.kill();
            let _gone = child.wait();
        }
    }

    /// Starts the server again, with its data.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn restart(&mut self) {
        self.kill();
        let output = fs::File::create(self.folder.join("output")).expect("the file can be created");
        let mut command = Command::new(program());
        command.arg(format!("--config-file={}", self.folder.join("config.xml").display()));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        self.child = Some(command.spawn().expect("the program starts"));
        let started = wait_until(START, || self.get("/ping").contains("Ok."));
        assert!(started.is_some(), "{}", fs::read_to_string(self.folder.join("output")).unwrap_or_default());
    }

    /// Runs a query that needs no escape besides spaces, and returns the lines of the response.
    ///
    /// # Panics
    /// If the server does not reply with 200.
    #[must_use]
    #[track_caller]
    pub fn query(&self, sql: &str) -> Vec<String> {
        let response = self.get(&format!("/?query={}", sql.replace(' ', "%20")));
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or_default();
        assert!(head.starts_with("HTTP/1.0 200"), "{sql}: {response}");
        body.lines().map(str::to_owned).collect()
    }

    fn get(&self, target: &str) -> String {
        let exchange = || {
            let mut stream = TcpStream::connect(self.addr)?;
            write!(stream, "GET {target} HTTP/1.0\r\n\r\n")?;
            let mut response = String::new();
            stream.read_to_string(&mut response).map(|_| response)
        };
        exchange().unwrap_or_default()
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        self.kill();
        let _gone = fs::remove_dir_all(&self.folder);
    }
}
