//! What may be done to arguments that are not exactly right: the rungs of the ladder, and the rules that stand on each.
//! Who does it is elsewhere: `tollgate-wire` mends text, `tollgate-catalog` converts values.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Risk;

/// How far arguments are mended, strictest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RepairLevel {
    /// Not at all: JSON as RFC 8259 and I-JSON (RFC 7493) have it, of the types that the schema says.
    Off,
    /// Where one reading is possible, and nothing of what was written is left out.
    #[default]
    Lossless,
    /// Also where what is left out is no argument: comments, and words after the object. Only for tools that read.
    Lenient,
}

impl RepairLevel {
    /// What counts of what several say, for a tool of this risk: the strictest, and never [`Self::Lenient`] where something
    /// changes. Where nobody says anything, [`Self::Lossless`].
    ///
    /// ```
    /// use tollgate_types::{RepairLevel::{self, *}, Risk};
    ///
    /// assert_eq!(RepairLevel::strictest([None, Some(Lenient)], Risk::Read), Lenient);
    /// assert_eq!(RepairLevel::strictest([None, Some(Lenient)], Risk::Write), Lossless);
    /// assert_eq!(RepairLevel::strictest([Some(Off), Some(Lenient)], Risk::Read), Off);
    /// ```
    pub fn strictest(said: impl IntoIterator<Item = Option<Self>>, risk: Risk) -> Self {
        let said = said.into_iter().flatten().min().unwrap_or_default();
        if risk == Risk::Read { said } else { said.min(Self::Lossless) }
    }

    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Lossless => "lossless",
            Self::Lenient => "lenient",
        }
    }
}

impl fmt::Display for RepairLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! rules {
    ($($variant:ident $name:literal $level:ident $does:literal),+ $(,)?) => {
        /// One way of mending. docs/repair.md has an example of each.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum RepairRule {
            $(#[doc = $does] $variant),+
        }

        impl RepairRule {
            /// Every rule, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in the ledger and in the outcome.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The lowest rung on which it stands.
            pub fn level(self) -> RepairLevel {
                match self { $(Self::$variant => RepairLevel::$level),+ }
            }

            /// What it does, in words.
            pub fn does(self) -> &'static str {
                match self { $(Self::$variant => $does),+ }
            }
        }
    };
}

rules! {
    EmptyArguments "empty_arguments" Lossless "Nothing, or `null`, is an object without members.",
    ObjectArguments "object_arguments" Lossless "An object where the wire wants its text.",
    JoinedArguments "joined_arguments" Off "Several objects in one call, each of which is a call.",
    DoubleEncoded "double_encoded" Lossless "An object within one JSON string, once.",
    CodeFence "code_fence" Lossless "An object within a Markdown code fence that is the whole text.",
    ControlCharsEscaped "control_chars_escaped" Lossless "Line breaks and tabs within a string as they are.",
    TrailingComma "trailing_comma" Lossless "A comma after the last member.",
    SingleQuotes "single_quotes" Lossless "Strings in single quotes.",
    PythonLiteral "python_literal" Lossless "`True`, `False` and `None`.",
    UnquotedKey "unquoted_key" Lossless "Keys without quotes.",
    Comment "comment" Lenient "A comment is left out.",
    TrailingText "trailing_text" Lenient "Words after the object, in which there is no JSON, are left out.",
    IntegralFloat "integral_float" Lossless "A number without fraction, written with one, where an integer is wanted.",
    StringToInteger "string_to_integer" Lossless "Text that is an integer in its one form, where an integer is wanted.",
    StringToNumber "string_to_number" Lossless "Text that is a number which keeps its digits, where a number is wanted.",
    StringToBoolean "string_to_boolean" Lossless "Text that is a boolean, where a boolean is wanted.",
    NumberToString "number_to_string" Lossless "An integer where text is wanted.",
    JsonStringParsed "json_string_parsed" Lossless "An object or a list as JSON within text, where one is wanted.",
    NullDropped "null_dropped" Lossless "`null` for what may be left out and may not be `null`.",
    NamePrefixStripped "name_prefix_stripped" Off "A prefix such as `functions.` before exactly the name of an offered tool.",
}

impl fmt::Display for RepairRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<RepairRule> for String {
    fn from(rule: RepairRule) -> Self {
        rule.as_str().to_owned()
    }
}
