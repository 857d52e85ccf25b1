//! A connection string, read once: whom it names, what in it is secret, and whether what goes there is encrypted.
//! Nothing of it ever stands in an error.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tollgate_types::{Secret, limits};

/// A PostgreSQL server and how to sign in there.
#[derive(Clone)]
pub struct Postgres {
    config: Config,
    encryption: Encryption,
    secrets: Vec<Secret>,
    is_plain_to_afar: bool,
}

/// How a connection is protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Encryption {
    /// Not at all.
    None,
    /// TLS; the server proves its name by a certificate that this machine trusts.
    Platform,
    /// TLS; the server proves its name by one of these certificates.
    Roots(PathBuf),
}

/// Why a text is no connection string. It never says what stands there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostgresError {
    /// It can not be read.
    #[error("it is no connection string such as `postgres://user:password@host/database`")]
    Unreadable,
    /// It names nobody.
    #[error("the connection string names no host")]
    NoHost,
    /// An unknown way of encryption.
    #[error(
        "the connection string has an `sslmode` that is not one of disable, prefer, require, verify-ca, verify-full"
    )]
    SslMode,
}

impl Postgres {
    /// Reads a connection string: a `postgres://` address, or words such as `host=… user=…`. A file in it is relative to
    /// `folder`.
    ///
    /// A server on another machine is spoken to in TLS, with a certificate that names it. Only `sslmode=disable` turns
    /// that off. On this machine TLS is used where `sslmode=require` or more asks for it.
    ///
    /// # Errors
    /// When it is no connection string; nothing of the text is repeated.
    pub fn new(connection: &Secret, folder: &Path) -> Result<Self, PostgresError> {
        let text = connection.expose().trim();
        let (rest, said) = Said::split(text).ok_or(PostgresError::Unreadable)?;
        let mut config: Config = rest.parse().map_err(|_| PostgresError::Unreadable)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresError::NoHost);
        }
        let is_afar = is_afar(&config);
        let encryption = match said.mode.as_deref() {
            Some("disable") => Encryption::None,
            None | Some("prefer" | "allow") if !is_afar => Encryption::None,
            None | Some("prefer" | "allow" | "require" | "verify-ca" | "verify-full") => {
                said.roots.map_or(Encryption::Platform, |roots| Encryption::Roots(folder.join(roots)))
            }
            Some(_) => return Err(PostgresError::SslMode),
        };
        let is_plain = encryption == Encryption::None;
        config.ssl_mode(if is_plain { SslMode::Disable } else { SslMode::Require });
        if config.get_application_name().is_none() {
            config.application_name("tollgate");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Duration::from_millis(limits::HTTP_CONNECT_TIMEOUT_MS));
        }
        let secrets = secrets(text, &config);
        Ok(Self { config, encryption, secrets, is_plain_to_afar: is_plain && is_afar })
    }

    /// What must not be seen of it: the whole, and the password in each way it is written.
    pub fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// Whether the password and all rows go to another machine without encryption.
    pub fn is_plain_to_afar(&self) -> bool {
        self.is_plain_to_afar
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    pub(super) fn encryption(&self) -> &Encryption {
        &self.encryption
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("encryption", &self.encryption).finish_non_exhaustive()
    }
}

/// Whether any of the hosts is not this machine.
fn is_afar(config: &Config) -> bool {
    let is_near = |name: &str| name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback());
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return !addresses.iter().all(IpAddr::is_loopback);
    }
    !config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => is_near(name),
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

fn secrets(text: &str, config: &Config) -> Vec<Secret> {
    let mut secrets = vec![Secret::new(text)];
    if let Some(password) = config.get_password() {
        secrets.push(Secret::new(String::from_utf8_lossy(password)));
    }
    let written = url_rest(text).and_then(|rest| rest.split_once('@')).and_then(|(user, _)| user.split_once(':'));
    secrets.extend(written.map(|(_, password)| Secret::new(password)));
    secrets.dedup();
    secrets
}

/// What follows the scheme of an address.
fn url_rest(text: &str) -> Option<&str> {
    text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))
}

/// What a connection string says of TLS. The driver knows neither `verify-full` nor certificates.
#[derive(Default)]
struct Said {
    mode: Option<String>,
    roots: Option<String>,
}

impl Said {
    /// The connection string without it.
    fn split(text: &str) -> Option<(String, Self)> {
        let mut said = Self::default();
        let rest = match url_rest(text) {
            Some(rest) => {
                let after_user = rest.find('@').map_or(rest, |at| rest.get(at..).unwrap_or_default());
                let Some((_, query)) = after_user.split_once('?') else { return Some((text.to_owned(), said)) };
                let kept: Vec<&str> = query.split('&').filter(|pair| !said.takes_encoded(pair)).collect();
                let base = text.strip_suffix(query)?.strip_suffix('?')?;
                if kept.is_empty() { base.to_owned() } else { format!("{base}?{}", kept.join("&")) }
            }
            None => {
                let pairs = pairs(text)?;
                let kept = pairs.into_iter().filter(|(key, value)| !said.takes(key, value));
                kept.map(|(key, value)| format!("{key}='{}' ", value.replace('\\', "\\\\").replace('\'', "\\'")))
                    .collect()
            }
        };
        Some((rest, said))
    }

    fn takes_encoded(&mut self, pair: &str) -> bool {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        self.takes(key, &percent_decode_str(value).decode_utf8_lossy())
    }

    fn takes(&mut self, key: &str, value: &str) -> bool {
        match key {
            "sslmode" => self.mode = Some(value.to_owned()),
            // `system` is what there is without it.
            "sslrootcert" => self.roots = Some(value.to_owned()).filter(|value| value != "system"),
            _ => return false,
        }
        true
    }
}

/// `key = 'value'` pairs, as libpq writes them.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (value, after) = match after.strip_prefix('\'') {
            Some(quoted) => read_value(quoted, Some('\''))?,
            None => read_value(after, None)?,
        };
        pairs.push((key.trim_end().to_owned(), value));
        rest = after.trim_start();
    }
    Some(pairs)
}

/// A value up to its quote, or to the next space; a backslash makes the next character a plain one.
fn read_value(text: &str, quote: Option<char>) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if Some(c) == quote || (quote.is_none() && c.is_ascii_whitespace()) {
            return Some((value, text.get(at + c.len_utf8()..)?));
        }
        value.push(if c == '\\' { chars.next()?.1 } else { c });
    }
    quote.is_none().then_some((value, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Postgres, PostgresError> {
        Postgres::new(&Secret::new(text), Path::new("/etc/tollgate"))
    }

    #[test]
    fn another_machine_is_never_spoken_to_in_plain_text_unless_that_is_said() {
        let roots = Encryption::Roots("/etc/tollgate/ca.pem".into());
        let cases = [
            ("postgres://u:p@db.example/shop", Encryption::Platform, false),
            ("postgres://u:p@db.example/shop?sslmode=prefer", Encryption::Platform, false),
            ("postgres://u:p@db.example/shop?sslmode=allow", Encryption::Platform, false),
            ("postgres://u:p@db.example/shop?sslmode=verify-full&connect_timeout=3", Encryption::Platform, false),
            ("postgres://u:p@db.example/shop?sslmode=disable", Encryption::None, true),
            ("postgresql://u:p@10.0.0.7/shop?sslrootcert=ca.pem", roots.clone(), false),
            ("postgres://u:p@db.example/shop?sslrootcert=system", Encryption::Platform, false),
            ("host=db.example user=u sslmode = require", Encryption::Platform, false),
            ("host='db.example' user=u sslmode='disable'", Encryption::None, true),
            ("host=db.example hostaddr=127.0.0.1 user=u", Encryption::None, false),
            ("host=localhost hostaddr=10.0.0.7 user=u", Encryption::Platform, false),
            ("postgres://u:p@localhost/shop", Encryption::None, false),
            ("postgres://u:p@127.0.0.1:5433,db.example:5432/shop", Encryption::Platform, false),
            ("postgres://u:p@[::1]/shop?sslmode=require", Encryption::Platform, false),
            ("host=/run/postgresql user=u", Encryption::None, false),
            ("postgres://u@%2Frun%2Fpostgresql/shop", Encryption::None, false),
            ("host=127.0.0.2 sslrootcert=ca.pem sslmode=verify-ca", roots, false),
        ];
        for (text, encryption, is_plain_to_afar) in cases {
            let postgres = read(text).unwrap();
            assert_eq!((&postgres.encryption, postgres.is_plain_to_afar), (&encryption, is_plain_to_afar), "{text}");
            let is_off = encryption == Encryption::None;
            assert_eq!(postgres.config.get_ssl_mode() == SslMode::Disable, is_off, "{text}");
        }
    }

    #[test]
    fn the_password_is_known_as_it_is_and_as_it_is_written() {
        let secrets = |text: &str| -> Vec<String> {
            read(text).unwrap().secrets.iter().map(|secret| secret.expose().to_owned()).collect()
        };
        let url = "postgres://u:zq%40pass%2Fword@h/d?sslmode=disable";
        assert_eq!(secrets(url), [url, "zq@pass/word", "zq%40pass%2Fword"]);
        let words = r"host=h password='zq \'pass\\' user=u";
        assert_eq!(secrets(words), [words, r"zq 'pass\"]);
        assert_eq!(secrets("host=h user=u"), ["host=h user=u"]);
    }

    #[test]
    fn what_is_wrong_is_said_without_a_word_of_it() {
        for (text, error) in [
            ("zq-secret", PostgresError::Unreadable),
            ("mysql://u:zq-secret@h/d", PostgresError::Unreadable),
            ("postgres://u:zq-secret@h:port/d", PostgresError::Unreadable),
            ("postgres://u:p@h/d?zq-secret=1", PostgresError::Unreadable),
            ("host=h password='zq-secret", PostgresError::Unreadable),
            ("user=u password=zq-secret", PostgresError::NoHost),
            ("postgres://u:p@h/d?sslmode=zq-secret", PostgresError::SslMode),
        ] {
            let found = read(text).unwrap_err();
            assert_eq!(found, error, "{text}");
            assert!(!found.to_string().contains("zq-secret"));
        }
        assert!(!format!("{:?}", read("postgres://u:zq-secret@h/d").unwrap()).contains("zq"));
    }
}
