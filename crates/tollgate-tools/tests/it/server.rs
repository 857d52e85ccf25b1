//! A PostgreSQL server of its own for each test: in a folder of its own, on a socket in it and a free port, and gone
//! with the test however that ends.
#![expect(clippy::disallowed_methods, reason = "PostgreSQL and openssl are started for the test, no tool's program")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tollgate_tools::Postgres;
use tollgate_types::Secret;

/// The password of both users: one that has to be written otherwise in an address.
pub(crate) const PASSWORD: &str = "zq@pass/word";
const PASSWORD_ENCODED: &str = "zq%40pass%2Fword";

/// The server.
pub(crate) struct Server {
    folder: TempDir,
    port: u16,
    child: Child,
}

impl Server {
    /// A server with TLS, its superuser `owner`, and `schema` in the database `shop`.
    pub(crate) async fn start(schema: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let owner = owner();
        make_data(folder.path(), owner);
        make_certificates(folder.path(), owner);
        let (child, port) = started(folder.path(), owner);
        let server = Self { folder, port, child };
        server.run("postgres", "CREATE DATABASE shop").await;
        server.run("shop", schema).await;
        server
    }

    /// Runs statements as the superuser.
    pub(crate) async fn run(&self, database: &str, sql: &str) {
        self.rows(database, sql).await;
    }

    /// The first column of the rows of statements that the superuser runs.
    pub(crate) async fn rows(&self, database: &str, sql: &str) -> Vec<String> {
        let socket = self.folder.path().display();
        let text = format!("host={socket} port={} user=owner password={PASSWORD} dbname={database}", self.port);
        let (client, wire) = tokio_postgres::connect(&text, tokio_postgres::NoTls).await.unwrap();
        let work = async {
            let found = client.simple_query(sql).await.unwrap();
            drop(client);
            found
        };
        let (found, ended) = tokio::join!(work, wire);
        ended.unwrap();
        let texts = found.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        texts.collect()
    }

    /// How `user` gets there, over the socket.
    pub(crate) fn socket(&self, user: &str) -> Postgres {
        let socket = self.folder.path().display();
        self.named(&format!("host={socket} port={} user={user} password={PASSWORD} dbname=shop", self.port))
    }

    /// How `user` gets there, over TCP.
    pub(crate) fn tcp(&self, user: &str, host: &str, options: &str) -> Postgres {
        self.named(&format!("postgres://{user}:{PASSWORD_ENCODED}@{host}:{}/shop{options}", self.port))
    }

    fn named(&self, text: &str) -> Postgres {
        Postgres::new(&Secret::new(text), self.folder.path()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The postmaster takes its children with it when it is asked to, and not when it is killed.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        let _ = self.child.wait();
    }
}

/// PostgreSQL does not run as root: then it runs as the user that its package made.
fn owner() -> Option<(u32, u32)> {
    if !rustix::process::getuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("postgres:"));
    let Some(line) = line else { panic!("there is no user `postgres` to run it as: apt-get install postgresql") };
    let mut fields = line.split(':').skip(2).map(|field| field.parse().unwrap());
    Some((fields.next().unwrap(), fields.next().unwrap()))
}

/// A program of PostgreSQL's, from the path or from where Debian puts them.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let installed = versions.map(|version| version.path().join("bin").join(name)).filter(|file| file.is_file());
    in_path.or_else(|| installed.max()).unwrap_or_else(|| {
        panic!("this test needs `{name}`: install PostgreSQL (apt-get install postgresql) or add its folder to PATH")
    })
}

fn command(program: &Path, owner: Option<(u32, u32)>) -> Command {
    let mut command = Command::new(program);
    if let Some((uid, gid)) = owner {
        command.uid(uid).gid(gid);
    }
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

fn succeeds(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn make_data(folder: &Path, owner: Option<(u32, u32)>) {
    let password = folder.join("password");
    fs::write(&password, PASSWORD).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    for path in [folder, &password] {
        hand_over(path, owner);
    }
    let mut initdb = command(&program("initdb"), owner);
    initdb.current_dir(folder).arg("-D").arg(folder.join("data")).args(["-U", "owner", "-A", "scram-sha-256"]);
    succeeds(initdb.args(["-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--pwfile"]).arg(&password));
}

fn hand_over(path: &Path, owner: Option<(u32, u32)>) {
    if let Some((uid, gid)) = owner {
        chown(path, Some(uid), Some(gid)).unwrap();
    }
}

/// An authority, and a certificate of it for `localhost`.
fn make_certificates(folder: &Path, owner: Option<(u32, u32)>) {
    let openssl = |args: &[&str]| {
        let mut command = Command::new("openssl");
        command.current_dir(folder).args(args);
        let Ok(done) = command.output() else { panic!("this test needs `openssl`: apt-get install openssl") };
        assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    openssl(
        &[
            &["req", "-x509", "-days", "2", "-subj", "/CN=test authority"],
            &key[..],
            &["-keyout", "ca.key", "-out", "ca.pem"],
        ]
        .concat(),
    );
    openssl(&[&["req", "-subj", "/CN=localhost"], &key[..], &["-keyout", "server.key", "-out", "server.csr"]].concat());
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=critical,CA:FALSE\n").unwrap();
    openssl(&[
        "x509",
        "-req",
        "-in",
        "server.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "names",
        "-out",
        "server.pem",
    ]);
    fs::set_permissions(folder.join("server.key"), fs::Permissions::from_mode(0o600)).unwrap();
    for file in ["server.key", "server.pem"] {
        hand_over(&folder.join(file), owner);
    }
}

/// Starts it on a port that was free a moment ago, and on another one if somebody was quicker.
fn started(folder: &Path, owner: Option<(u32, u32)>) -> (Child, u16) {
    for _ in 0..5 {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut postgres = command(&program("postgres"), owner);
        postgres.current_dir(folder).arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
        postgres.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-c", "fsync=off", "-c", "ssl=on"]);
        postgres.arg("-c").arg(format!("ssl_cert_file={}", folder.join("server.pem").display()));
        postgres.arg("-c").arg(format!("ssl_key_file={}", folder.join("server.key").display()));
        let mut child = postgres.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let (mut said, mut line) = (String::new(), String::new());
        while log.read_line(&mut line).unwrap() > 0 {
            said.push_str(&line);
            if line.contains("database system is ready to accept connections") {
                // What it says from now on nobody reads, and it must not wait for that.
                std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
                return (child, port);
            }
            line.clear();
        }
        child.wait().unwrap();
        assert!(said.contains("could not bind") || said.contains("could not create any TCP"), "{said}");
    }
    panic!("no port stays free");
}
