//! TLS to a PostgreSQL server. The server always has to prove its name.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{Encryption, Postgres};

/// What makes connections private, unless they are plain.
pub(super) fn connector(postgres: &Postgres) -> Result<Option<MakeRustlsConnect>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = || {
        ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())
    };
    let config = match postgres.encryption() {
        Encryption::None => return Ok(None),
        Encryption::Platform => builder()?
            .with_platform_verifier()
            .map_err(|error| format!("the certificates that this machine trusts can not be read: {error}"))?
            .with_no_client_auth(),
        Encryption::Roots(file) => builder()?.with_root_certificates(roots(file)?).with_no_client_auth(),
    };
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn roots(file: &Path) -> Result<RootCertStore, String> {
    let bad = |why: String| format!("`sslrootcert`: the file `{}`: {why}", file.display());
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| bad(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() { Err(bad("it has no certificate".to_owned())) } else { Ok(roots) }
}
