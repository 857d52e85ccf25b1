//! `tollgate mcp add`: a server in words of the command line, or those of another client's list, into `tollgate.toml`.

use serde_json::{Map, Value, json};
use tollgate::mcp::upstream::{UpstreamConfig, UpstreamKind};

use crate::args::{AddArgs, Global};
use crate::command::configuration;
use crate::command::init::{TEMPLATE, Target, finish};
use crate::failure::Failure;
use crate::import::{Entry, Import, World};

pub(crate) fn run(global: &Global, args: &AddArgs) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let world = World::here()?;
    let target = match &loaded.file {
        Some(file) => Target::existing(&world.folder, file)?,
        None => Target::new("tollgate.toml".as_ref(), &world.folder.join("tollgate.toml"), TEMPLATE),
    };
    let folder = target.folder(&world.folder);
    let mut import = Import::new(&world, &loaded, &folder);
    match (&args.from, &args.name) {
        (Some(list), only) => {
            for place in &world.asked(std::slice::from_ref(list))? {
                import.some_of_list(place, only.as_deref());
            }
            let is_found = import.lists.iter().any(|list| list.fault.is_some() || !list.servers.is_empty());
            if let Some(name) = only.as_deref().filter(|_| !is_found) {
                return Err(Failure::usage(format!("no server is named `{name}` in {list}"))
                    .hint(format!("tollgate mcp add --from {list} --dry-run    shows those that are")));
            }
        }
        (None, name) => one(&mut import, name.as_deref().unwrap_or_default(), args)?,
    }
    finish(global, &target, &import, Vec::new(), args.dry_run)
}

fn one(import: &mut Import<'_>, name: &str, args: &AddArgs) -> Result<(), Failure> {
    let kind = UpstreamKind::Http { url: "http://127.0.0.1/".into(), headers: Default::default() };
    UpstreamConfig::new(name, kind).check().map_err(|error| Failure::usage(error.to_string()))?;
    let fields = fields(args)?;
    let report = import.typed(&Entry { name: name.to_owned(), fields });
    match &report.here {
        Some(here) if here != name => Err(Failure::usage(format!("[mcp.{name}] is another server already"))
            .hint(format!("take another name, or change [mcp.{name}] in tollgate.toml"))),
        _ => Ok(()),
    }
}

/// The server as a list would have it.
fn fields(args: &AddArgs) -> Result<Value, Failure> {
    let pairs = |option: &str, given: &[String], parts: char| {
        let pair = |text: &String| match text.split_once(parts) {
            Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), json!(value.trim()))),
            _ => {
                let form = if parts == '=' { "NAME=VALUE" } else { "'NAME: VALUE'" };
                Err(Failure::usage(format!("{option} must be {form}")))
            }
        };
        given.iter().map(pair).collect::<Result<Map<_, _>, _>>()
    };
    let (env, headers) = (pairs("--env", &args.env, '=')?, pairs("--header", &args.header, ':')?);
    let Some((first, rest)) = args.reached.split_first() else {
        return Err(Failure::usage("what is the server reached by?")
            .hint("tollgate mcp add NAME URL, or tollgate mcp add NAME PROGRAM ARGUMENT…"));
    };
    let is_address = ["http://", "https://", "ws://", "wss://"].iter().any(|scheme| first.starts_with(scheme));
    match (is_address, rest.is_empty(), env.is_empty(), headers.is_empty()) {
        (true, true, true, _) => Ok(json!({ "url": first, "headers": headers })),
        (true, false, ..) => Err(Failure::usage(format!("`{}` stands after the address", rest.join(" ")))
            .hint("options come before the address: --header 'NAME: VALUE'")),
        (true, true, false, _) => Err(Failure::usage("--env is for programs; an address takes --header")),
        (false, _, _, false) => Err(Failure::usage("--header is for addresses; a program takes --env")),
        (false, _, _, true) => Ok(json!({ "command": first, "args": rest, "env": env })),
    }
}
