//! What a call costs: units that the operator gives a meaning to, counted exactly to the millionth.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Number, Value};

use crate::limits::UNITS_MAX;

/// Millionths in a unit.
const MICRO: u64 = 1_000_000;
/// Digits after the point.
const FRACTION_DIGITS: usize = 6;
/// Digits that survive the way through a 64-bit float (IEEE 754).
const FLOAT_DIGITS: usize = 15;

/// An amount of units: 0 to [`UNITS_MAX`], exact to the millionth.
///
/// ```
/// use tollgate_types::Units;
///
/// let price: Units = "0.1".parse()?;
/// assert_eq!(price.plus("0.2".parse()?), "0.3".parse().ok());
/// assert!("0.0000001".parse::<Units>().is_err());
/// # Ok::<(), tollgate_types::UnitsError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Units(u64);

/// Why a text or a number is no amount of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitsError {
    /// It is no plain decimal number.
    NotANumber,
    /// It is negative.
    Negative,
    /// It has more than six digits after the point.
    TooFine,
    /// It is more than [`UNITS_MAX`].
    TooLarge,
    /// It was written as a number with more digits than one keeps.
    Inexact,
}

impl fmt::Display for UnitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber => f.write_str("not a plain decimal number, such as 12 or 0.05"),
            Self::Negative => f.write_str("less than 0"),
            Self::TooFine => write!(f, "more than {FRACTION_DIGITS} digits after the point"),
            Self::TooLarge => write!(f, "more than {UNITS_MAX} units"),
            Self::Inexact => write!(f, "more than {FLOAT_DIGITS} digits: write it as a text, such as \"12.000001\""),
        }
    }
}

impl Error for UnitsError {}

/// What becomes of digits beyond the millionth.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Refused,
    RoundedUp,
}

impl Units {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One unit: what a call costs unless its tool says otherwise.
    pub const ONE: Self = Self(MICRO);

    /// So many millionths. None above [`UNITS_MAX`].
    pub fn from_micro(micro: u64) -> Option<Self> {
        (micro <= UNITS_MAX * MICRO).then_some(Self(micro))
    }

    /// The amount in millionths.
    pub fn micro(self) -> u64 {
        self.0
    }

    /// Both together. None above [`UNITS_MAX`].
    pub fn plus(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).and_then(Self::from_micro)
    }

    /// What is left of it when the other is taken away; nothing where that is more.
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// So many times a price, rounded up to the millionth.
    fn times(self, price: Self) -> Result<Self, UnitsError> {
        let micro = (u128::from(self.0) * u128::from(price.0)).div_ceil(u128::from(MICRO));
        u64::try_from(micro).ok().and_then(Self::from_micro).ok_or(UnitsError::TooLarge)
    }

    fn decimal(text: &str, beyond: Beyond) -> Result<Self, UnitsError> {
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if text.strip_prefix('-').is_some_and(|rest| is_digits(&rest.replacen('.', "", 1))) {
            return Err(UnitsError::Negative);
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        if !is_digits(whole) || !is_digits(fraction) {
            return Err(UnitsError::NotANumber);
        }
        let (kept, rest) = fraction.split_at_checked(FRACTION_DIGITS).unwrap_or((fraction, ""));
        let has_rest = rest.bytes().any(|byte| byte != b'0');
        if has_rest && beyond == Beyond::Refused {
            return Err(UnitsError::TooFine);
        }
        let whole: u64 = whole.parse().ok().filter(|whole| *whole <= UNITS_MAX).ok_or(UnitsError::TooLarge)?;
        let kept: u64 = format!("{kept:0<FRACTION_DIGITS$}").parse().map_err(|_| UnitsError::NotANumber)?;
        Self::from_micro(whole * MICRO + kept + u64::from(has_rest)).ok_or(UnitsError::TooLarge)
    }

    /// A number of a configuration, which was written in decimal and means exactly that.
    fn written(number: f64) -> Result<Self, UnitsError> {
        let text = shortest(number)?;
        let digits = text.trim_start_matches(['-', '0', '.']).bytes().filter(u8::is_ascii_digit).count();
        match Self::decimal(&text, Beyond::Refused) {
            Ok(_) if digits > FLOAT_DIGITS => Err(UnitsError::Inexact),
            read => read,
        }
    }

    /// The amount that an argument names. Digits beyond the millionth round up: no call costs less than it says.
    fn argument(value: &Value) -> Result<Self, UnitsError> {
        match value {
            Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) => Self::decimal(&shortest(float)?, Beyond::RoundedUp),
                None => Self::decimal(&Number::to_string(number), Beyond::RoundedUp),
            },
            Value::String(text) => Self::decimal(text.trim(), Beyond::RoundedUp),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(UnitsError::NotANumber),
        }
    }
}

/// The shortest decimal that reads back as this number, without an exponent: what was written, up to 15 digits.
fn shortest(number: f64) -> Result<String, UnitsError> {
    if number.is_finite() { Ok(format!("{number}")) } else { Err(UnitsError::NotANumber) }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / MICRO, self.0 % MICRO);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let text = format!("{whole}.{fraction:0>FRACTION_DIGITS$}");
        f.write_str(text.trim_end_matches('0'))
    }
}

impl FromStr for Units {
    type Err = UnitsError;

    fn from_str(text: &str) -> Result<Self, UnitsError> {
        Self::decimal(text, Beyond::Refused)
    }
}

/// As a text: a JSON number would pass through a float.
impl Serialize for Units {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Units {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UnitsVisitor)
    }
}

impl JsonSchema for Units {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Units".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "An amount of units, 0 to 1000000000000, exact to the millionth: a number, or a text where it has \
                            more than 15 digits.",
            "type": ["number", "string"],
            "minimum": 0,
        })
    }
}

struct UnitsVisitor;

impl Visitor<'_> for UnitsVisitor {
    type Value = Units;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount of units, such as 12 or 0.05")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Units, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Units, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Units, E> {
        Units::written(number).map_err(|error| E::custom(format_args!("`{number}` is {error}")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Units, E> {
        text.parse().map_err(|error| E::custom(format_args!("`{text}` is {error}")))
    }
}

/// What a call of a tool costs: a fixed price, or one that an argument or the result names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Cost {
    /// The same for every call.
    Fixed(Units),
    /// The value of an argument, as for a payment.
    Argument(ArgumentCost),
    /// What the result says, as for a service that bills by use.
    Result(ResultCost),
}

/// `cost = { argument = "/amount", per_unit = 1 }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArgumentCost {
    /// JSON Pointer to the argument: a number of 0 or more, or a text that is one. A call that has none there is refused.
    pub argument: String,
    /// What one of it costs.
    #[serde(default = "one")]
    pub per_unit: Units,
}

/// `cost = { result = "/usage/tokens", per_unit = 0.000002, at_most = 0.5 }`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultCost {
    /// JSON Pointer into the structured result: a number of 0 or more, or a text that is one. A result that has none there
    /// costs `at_most`.
    pub result: String,
    /// What one of it costs.
    #[serde(default = "one")]
    pub per_unit: Units,
    /// What a call costs until it has a result, and at most.
    pub at_most: Units,
}

/// The tables of costs, as they are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CostTable {
    #[serde(default, deserialize_with = "pointer")]
    argument: Option<String>,
    #[serde(default, deserialize_with = "pointer")]
    result: Option<String>,
    #[serde(default = "one")]
    per_unit: Units,
    #[serde(default)]
    at_most: Option<Units>,
}

impl TryFrom<CostTable> for Cost {
    type Error = &'static str;

    fn try_from(table: CostTable) -> Result<Self, &'static str> {
        let CostTable { argument, result, per_unit, at_most } = table;
        match (argument, result, at_most) {
            (Some(argument), None, None) => Ok(Self::Argument(ArgumentCost { argument, per_unit })),
            (None, Some(result), Some(at_most)) => Ok(Self::Result(ResultCost { result, per_unit, at_most })),
            (None, Some(_), None) => Err("with `result` say what a call costs `at_most`"),
            (Some(_), None, Some(_)) => Err("`at_most` goes with `result`, not with `argument`"),
            (Some(_), Some(_), _) => Err("it has both `argument` and `result`"),
            (None, None, _) => Err("it has neither `argument` nor `result`"),
        }
    }
}

fn one() -> Units {
    Units::ONE
}

fn pointer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.starts_with('/') {
        return Ok(Some(text));
    }
    Err(de::Error::custom(format_args!("`{text}` is not a JSON Pointer, such as \"/amount\"")))
}

impl Cost {
    /// What a call with these arguments costs, or may cost at most.
    ///
    /// # Errors
    /// Where the arguments do not say it: what is wrong with them, for the model.
    pub fn of(&self, arguments: &Value) -> Result<Units, String> {
        let ArgumentCost { argument, per_unit } = match self {
            Self::Fixed(units) => return Ok(*units),
            Self::Result(cost) => return Ok(cost.at_most),
            Self::Argument(cost) => cost,
        };
        let Some(value) = arguments.pointer(argument) else { return Err(format!("there is nothing at `{argument}`")) };
        let amount = Units::argument(value).and_then(|amount| amount.times(*per_unit));
        amount.map_err(|error| format!("what stands at `{argument}` is {error}"))
    }

    /// What a call with this structured result did cost, where the result says it.
    pub fn after(&self, result: &Value) -> Option<Units> {
        let Self::Result(ResultCost { result: pointer, per_unit, .. }) = self else { return None };
        Units::argument(result.pointer(pointer)?).and_then(|amount| amount.times(*per_unit)).ok()
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(units) => write!(f, "{units}"),
            Self::Argument(ArgumentCost { argument, per_unit }) => write!(f, "{per_unit} × `{argument}`"),
            Self::Result(ResultCost { result, per_unit, at_most }) => {
                write!(f, "{per_unit} × `{result}` of the result, {at_most} at most")
            }
        }
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CostVisitor)
    }
}

struct CostVisitor;

impl<'de> Visitor<'de> for CostVisitor {
    type Value = Cost;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount of units, such as 12 or 0.05, or { argument = \"/amount\" }")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Cost, E> {
        UnitsVisitor.visit_u64(number).map(Cost::Fixed)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Cost, E> {
        UnitsVisitor.visit_i64(number).map(Cost::Fixed)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Cost, E> {
        UnitsVisitor.visit_f64(number).map(Cost::Fixed)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cost, E> {
        UnitsVisitor.visit_str(text).map(Cost::Fixed)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cost, A::Error> {
        CostTable::deserialize(MapAccessDeserializer::new(map))?.try_into().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
