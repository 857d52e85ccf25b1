//! How the MCP servers do, as metrics.

use std::fmt::Write as _;

use tollgate::mcp::upstream::UpstreamStatus;

use super::{escaped, head};
use crate::limits::SERIES_MAX;

/// What is counted of each server: the name, of which kind, what it is, and where it stands.
type Measure = (&'static str, &'static str, &'static str, fn(&UpstreamStatus) -> u64);

const MEASURES: [Measure; 4] = [
    ("mcp_server_restarts_total", "counter", "How often the server ended, or did not come up.", |server| {
        server.restarts
    }),
    ("mcp_server_tools", "gauge", "Tools that the server gives.", |server| count(&server.tools)),
    ("mcp_server_quarantined", "gauge", "What is set aside of the server.", |server| count(&server.quarantined)),
    ("mcp_server_noise_total", "counter", "What the server sent that was no answer.", |server| {
        let noise = &server.noise;
        noise.lines + noise.too_long + noise.unknown_ids + noise.stale_answers
    }),
];

fn count<T>(all: &[T]) -> u64 {
    u64::try_from(all.len()).unwrap_or(u64::MAX)
}

pub(super) fn write(out: &mut String, servers: &[UpstreamStatus]) -> std::fmt::Result {
    let servers = servers.get(..SERIES_MAX).unwrap_or(servers);
    if servers.is_empty() {
        return Ok(());
    }
    head(out, "mcp_server_state", "gauge", "1 for the state that the server is in.")?;
    for server in servers {
        let (name, state) = (escaped(&server.name), server.state.as_str());
        writeln!(out, "tollgate_mcp_server_state{{server=\"{name}\",state=\"{state}\"}} 1")?;
    }
    for (name, kind, help, measure) in MEASURES {
        head(out, name, kind, help)?;
        for server in servers {
            writeln!(out, "tollgate_{name}{{server=\"{}\"}} {}", escaped(&server.name), measure(server))?;
        }
    }
    Ok(())
}
