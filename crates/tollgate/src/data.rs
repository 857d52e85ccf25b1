//! What the configuration says of databases and the search engine, for the tools that ask them. One whose secret can not
//! be had costs only itself, and says so; every secret is hidden from now on.

use tollgate_guard::public::PublicClient;
use tollgate_guard::redact::Redactor;
use tollgate_tools::{BaseOptions, Database, Postgres, SearchConfig};
use tollgate_types::Secret;

use crate::Error;
use crate::config::{DatabaseKind, Loaded, SecretSource};

/// What the built-in tools need.
pub(crate) async fn options(
    loaded: &Loaded,
    redactor: &Redactor,
    warnings: &mut Vec<String>,
) -> Result<BaseOptions, Error> {
    let mut options = BaseOptions { public: PublicClient::new(), ..BaseOptions::default() };
    for (name, database) in &loaded.config.databases {
        let database = match loaded.database_kind(name, database)? {
            DatabaseKind::Sqlite(path) => Database::Sqlite(loaded.path(path)),
            DatabaseKind::Postgres(source) => match postgres(source, loaded, redactor).await {
                Ok(postgres) => {
                    if postgres.is_plain_to_afar() {
                        warnings.push(format!(
                            "the database `{name}` is on another machine and `sslmode=disable`: the password and all rows \
                             go there in plain text"
                        ));
                    }
                    Database::Postgres(Box::new(postgres))
                }
                Err(why) => {
                    warnings.push(format!("the database `{name}` is not available: {why}"));
                    continue;
                }
            },
        };
        options.databases.insert(name.clone(), database);
    }
    match search(loaded, redactor).await? {
        Ok(search) => options.search = search,
        Err(why) => warnings.push(format!("`search_web` is not available: {why}")),
    }
    Ok(options)
}

async fn postgres(source: &SecretSource, loaded: &Loaded, redactor: &Redactor) -> Result<Postgres, String> {
    let connection = source.resolve(&loaded.folder).await?;
    redactor.add_secret(&connection);
    let postgres = Postgres::new(&connection, &loaded.folder)
        .map_err(|error| format!("what {} gives: {error}", source.describe()))?;
    postgres.secrets().iter().for_each(|secret| redactor.add_secret(secret));
    Ok(postgres)
}

/// The outer error is the configuration's, the inner one the secret's.
async fn search(loaded: &Loaded, redactor: &Redactor) -> Result<Result<Option<SearchConfig>, String>, Error> {
    let (Some(url), Some(search)) = (loaded.search_url()?, &loaded.config.search) else { return Ok(Ok(None)) };
    let search = search.get_ref();
    let key = match &search.api_key {
        None => None,
        Some(source) => match source.resolve(&loaded.folder).await {
            Ok(key) => Some(hidden(key, redactor)),
            Err(why) => return Ok(Err(why)),
        },
    };
    Ok(SearchConfig::new(search.kind.into(), url, key).map(Some).map_err(|error| error.to_string()))
}

fn hidden(secret: Secret, redactor: &Redactor) -> Secret {
    redactor.add_secret(&secret);
    secret
}
