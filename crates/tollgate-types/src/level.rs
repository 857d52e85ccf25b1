//! What a tool does to the world, what it needs, and what it is for.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a tool does to the world, mildest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Changes nothing.
    Read,
    /// Changes something that can be changed back.
    Write,
    /// Can do harm that cannot be undone. What is not declared is dangerous.
    Dangerous,
}

/// What a tool needs, least first; a higher grant includes the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Look at what is here.
    Read,
    /// Change what is here.
    Write,
    /// Start programs.
    Execute,
    /// Reach other machines.
    Network,
    /// Everything. `admin` is read as this.
    #[serde(alias = "admin")]
    System,
}

/// What a tool is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Reads the outside world.
    Information,
    /// Reads internal systems.
    Data,
    /// Computes.
    Compute,
    /// Changes the outside world.
    Action,
    /// Works in the agent's own workspace.
    Environment,
}

macro_rules! names {
    ($type:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $type {
            /// The name in configuration, ledger and interfaces.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

names!(Risk { Read => "read", Write => "write", Dangerous => "dangerous" });
names!(Permission {
    Read => "read",
    Write => "write",
    Execute => "execute",
    Network => "network",
    System => "system",
});
names!(Category {
    Information => "information",
    Data => "data",
    Compute => "compute",
    Action => "action",
    Environment => "environment",
});
