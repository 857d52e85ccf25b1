//! The schema that every rule is checked against: what there is to speak of, and of which type.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::source::ArgumentType;

/// The schema in Cedar's own syntax, with these arguments declared.
pub(crate) fn text(arguments: &BTreeMap<String, ArgumentType>) -> String {
    let (mut args, mut from) = (String::new(), String::new());
    for (name, kind) in arguments {
        // Writing to a string does not fail.
        let _ = write!(args, "\n      \"{name}\"?: {},", kind.in_cedar());
        let _ = write!(from, "\n      \"{name}\"?: Set<String>,");
    }
    format!(
        r#"namespace Tollgate {{
  entity Role;
  entity ToolSet;
  entity User in [Role] = {{ subject: String, role: String, surface: String, tenant?: String }};
  entity Tool in [ToolSet] = {{
    name: String,
    source: String,
    server?: String,
    domain?: String,
    category: String,
    risk: String,
    risk_level: Long,
    permission: String,
    permission_level: Long,
    tags: Set<String>,
    read_only?: Bool,
    destructive?: Bool,
    idempotent?: Bool,
    open_world?: Bool,
  }};
  action "use" appliesTo {{
    principal: [User],
    resource: [Tool],
    context: {{
      args: {{{args}
      }},
      from: {{{from}
      }},
      approved: Bool,
      tainted: Bool,
      now: datetime,
      hour: Long,
      weekday: Long,
      tenant?: String,
      environment?: String,
    }}
  }};
}}
"#
    )
}
