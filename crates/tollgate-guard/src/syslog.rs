//! One message to a syslog server, in the form of RFC 5424: over the machine's own socket, UDP (RFC 5426) or TCP with counted
//! octets (RFC 6587). It asks the place that the operator configured and no other, and does not retry.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket, UnixDatagram};
use tokio::time::timeout;

/// Facility 13, log audit; severity 5, notice (RFC 5424 §6.2.1).
const PRIORITY: u8 = 13 * 8 + 5;

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A socket of this machine, such as `unix:/dev/log`.
    Unix(PathBuf),
    /// `udp://HOST:PORT`.
    Udp(String),
    /// `tcp://HOST:PORT`.
    Tcp(String),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_place = |place: &&str| {
            place.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        let wrong = || format!("`{text}` is not `unix:PATH`, `udp://HOST:PORT` or `tcp://HOST:PORT`");
        match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(("udp", rest)) => {
                rest.strip_prefix("//").filter(is_place).map(|it| Self::Udp(it.into())).ok_or_else(wrong)
            }
            Some(("tcp", rest)) => {
                rest.strip_prefix("//").filter(is_place).map(|it| Self::Tcp(it.into())).ok_or_else(wrong)
            }
            Some(_) | None => Err(wrong()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Udp(place) => write!(f, "udp://{place}"),
            Self::Tcp(place) => write!(f, "tcp://{place}"),
        }
    }
}

/// Sends one line. `time` is RFC 3339; `kind` is the message's id. That UDP and local sockets lose messages, nobody hears.
///
/// # Errors
/// When the server is not reached within `wait`.
pub async fn send(target: &Target, time: &str, kind: &str, text: &str, wait: Duration) -> io::Result<()> {
    let message = format!("<{PRIORITY}>1 {time} - tollgate {} {kind} - {text}", std::process::id());
    let sent = async {
        match target {
            Target::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.send(message.as_bytes()).await.map(drop)
            }
            Target::Udp(place) => {
                let addresses = tokio::net::lookup_host(place).await?;
                let address = addresses.into_iter().next().ok_or(io::ErrorKind::AddrNotAvailable)?;
                let own = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(own).await?;
                socket.connect(address).await?;
                socket.send(message.as_bytes()).await.map(drop)
            }
            Target::Tcp(place) => {
                let mut stream = TcpStream::connect(place).await?;
                stream.write_all(format!("{} {message}", message.len()).as_bytes()).await?;
                stream.shutdown().await
            }
        }
    };
    timeout(wait, sent).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    const WAIT: Duration = Duration::from_secs(30);

    #[test]
    fn a_target_is_read_or_refused() {
        for text in ["unix:/dev/log", "udp://log.example.com:514", "tcp://[::1]:601"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        for text in ["", "/dev/log", "unix:dev/log", "udp:log:514", "tcp://log", "tcp://:601", "http://log:80"] {
            assert!(text.parse::<Target>().is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_message_arrives_over_each_transport() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (unix, udp) = (UnixDatagram::bind(&path).unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let targets = [
            Target::Unix(path),
            Target::Udp(udp.local_addr().unwrap().to_string()),
            Target::Tcp(tcp.local_addr().unwrap().to_string()),
        ];
        for target in &targets {
            send(target, "2026-11-30T09:30:00.000000Z", "checkpoint", "{}", WAIT).await.unwrap();
        }
        let expected =
            format!("<109>1 2026-11-30T09:30:00.000000Z - tollgate {} checkpoint - {{}}", std::process::id());
        let mut buffer = [0; 1000];
        let length = unix.recv(&mut buffer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), expected);
        let length = udp.recv(&mut buffer).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), expected);
        let mut framed = String::new();
        tcp.accept().await.unwrap().0.read_to_string(&mut framed).await.unwrap();
        assert_eq!(framed, format!("{} {expected}", expected.len()));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_an_error() {
        let target = Target::Unix("/nowhere/log".into());
        assert!(send(&target, "t", "k", "m", WAIT).await.is_err());
    }
}
