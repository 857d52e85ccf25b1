//! How far a program is kept away from the machine. There is no isolation yet, and nothing here pretends otherwise.

/// How far a program is kept away from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The program may do whatever the user who started Tollgate may do.
    None,
}

impl Level {
    /// The name in records and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
        }
    }
}

/// The level at which programs run on this machine.
pub fn level() -> Level {
    Level::None
}
