//! Lossless conversions, guided by the schema. A value that fits is left alone, and so is one whose type is right, in
//! whatever branch; what is ambiguous is left to validation.

use serde_json::{Map, Number, Value};
use tollgate_types::{Repair, RepairRule, limits};

use super::plan::{NodeId, Plan, Types, escape};
use super::{Schema, bounds, right, strict};

/// Visits of subschemas, and sizes of tried values, for one coercion. What lies beyond is left to validation.
const STEPS_MAX: usize = 100_000;
/// Digits that a decimal number keeps in a float (IEEE 754 binary64).
const EXACT_DIGITS_MAX: usize = 15;
/// Bytes of text that weigh as much as one value.
const BYTES_PER_STEP: usize = 64;

pub(super) fn coerce(schema: &Schema, value: &mut Value) -> Vec<Repair> {
    let mut coercer = Coercer { schema, path: String::new(), repairs: Vec::new(), steps_left: STEPS_MAX, depth: 0 };
    coercer.visit(Plan::ROOT, Plan::ROOT, value);
    coercer.repairs
}

/// Whether a number is written as a float but is an integer.
pub(super) fn has_integral_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => integral(number).is_some(),
        Value::Array(items) => items.iter().any(has_integral_float),
        Value::Object(object) => object.values().any(has_integral_float),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

struct Coercer<'a> {
    schema: &'a Schema,
    path: String,
    repairs: Vec<Repair>,
    steps_left: usize,
    depth: usize,
}

impl<'a> Coercer<'a> {
    /// Coerces a value at a node. `whole` is the node whose in-place parts this one belongs to: what is required may
    /// stand in a neighbour.
    fn visit(&mut self, id: NodeId, whole: NodeId, value: &mut Value) {
        let Some(left) = self.steps_left.checked_sub(1) else { return };
        self.steps_left = left;
        let plan = &self.schema.plan;
        let node = plan.node(id);
        if let Some((converted, rule)) = convert(node.types, value, limits::JSON_DEPTH_MAX.saturating_sub(self.depth)) {
            *value = converted;
            self.repairs.push(Repair::new(self.path.clone(), rule));
        }
        for &also in &node.also {
            self.visit(also, whole, value);
        }
        match value {
            Value::Object(object) => self.visit_object(id, whole, object),
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(child) = node.item(index) {
                        self.below(&index.to_string(), child, item);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        // Which branch is meant is asked of what stands in any case.
        for branches in &node.alternatives {
            self.choose(branches, value);
        }
    }

    fn visit_object(&mut self, id: NodeId, whole: NodeId, object: &mut Map<String, Value>) {
        let plan = &self.schema.plan;
        let node = plan.node(id);
        for (name, child) in &node.properties {
            let Some(value) = object.get_mut(name) else { continue };
            if value.is_null() && !accepts_null(plan, *child) && !is_required(plan, whole, name) {
                // `remove` would move the last key here; the order is what people see.
                object.shift_remove(name);
                self.repairs.push(Repair::new(format!("{}/{}", self.path, escape(name)), RepairRule::NullDropped));
            } else {
                self.below(name, *child, value);
            }
        }
        let Some(additional) = node.additional else { return };
        for (name, value) in object {
            if !node.properties.contains_key(name) {
                self.below(name, additional, value);
            }
        }
    }

    fn below(&mut self, segment: &str, child: NodeId, value: &mut Value) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&escape(segment));
        self.depth += 1;
        self.visit(child, child, value);
        self.depth -= 1;
        self.path.truncate(length);
    }

    /// Where a value fits no branch, takes the one conversion that makes it fit.
    fn choose(&mut self, branches: &'a [NodeId], value: &mut Value) {
        let weight = weigh(value).saturating_mul(branches.len());
        let Some(left) = self.steps_left.checked_sub(weight) else {
            self.steps_left = 0;
            return;
        };
        self.steps_left = left;
        let fitting: Vec<NodeId> = branches.iter().copied().filter(|id| self.schema.fits(*id, value)).collect();
        match fitting.as_slice() {
            [] => {}
            [only] => return self.visit(*only, *only, value),
            _ => return,
        }
        let mut chosen: Option<(Value, Vec<Repair>)> = None;
        for &branch in branches {
            let mut candidate = value.clone();
            let before = self.repairs.len();
            self.visit(branch, branch, &mut candidate);
            let repairs = self.repairs.split_off(before);
            if repairs.is_empty() || !self.schema.fits(branch, &candidate) {
                continue;
            }
            match &chosen {
                Some((other, known)) if *other == candidate || drops_fewer(known, &repairs) => {}
                Some((_, known)) if !drops_fewer(&repairs, known) => return,
                Some(_) | None => chosen = Some((candidate, repairs)),
            }
        }
        let Some((converted, repairs)) = chosen else { return };
        let places = repairs.iter().filter(|repair| repair.rule != RepairRule::IntegralFloat.as_str());
        let mut places = places.filter_map(|repair| repair.path.strip_prefix(&self.path));
        if !places.any(|place| right::is_right(self.schema, branches, value, place, &mut self.steps_left)) {
            *value = converted;
            self.repairs.extend(repairs);
        }
    }
}

/// Whether all that was done is to drop some of the nulls that the others drop too.
fn drops_fewer(repairs: &[Repair], others: &[Repair]) -> bool {
    let is_dropped = |repair: &Repair| repair.rule == RepairRule::NullDropped.as_str();
    repairs.iter().all(|repair| is_dropped(repair) && others.iter().any(|other| other.path == repair.path))
}

/// The one lossless conversion of a value to a type that is wanted, and its rule.
fn convert(types: Types, value: &Value, depth_max: usize) -> Option<(Value, RepairRule)> {
    if let Value::Number(number) = value {
        if types.wants_integer() {
            return Some((integral(number)?.into(), RepairRule::IntegralFloat));
        }
        // A float's text is not known any more: 1.10 came as 1.1.
        let is_wanted = types.has(Types::STRING) && !types.accept(value) && !number.is_f64();
        return is_wanted.then(|| (number.to_string().into(), RepairRule::NumberToString));
    }
    let Value::String(text) = value else { return None };
    if types.accept(value) {
        return None;
    }
    if types.has(Types::INTEGER)
        && let Some(integer) = integer(text)
    {
        return Some((integer.into(), RepairRule::StringToInteger));
    }
    if types.has(Types::NUMBER)
        && let Some(number) = number(text)
    {
        return Some((number.into(), RepairRule::StringToNumber));
    }
    match text.as_str() {
        "true" | "True" if types.has(Types::BOOLEAN) => return Some((true.into(), RepairRule::StringToBoolean)),
        "false" | "False" if types.has(Types::BOOLEAN) => return Some((false.into(), RepairRule::StringToBoolean)),
        _ => {}
    }
    if !(types.has(Types::OBJECT) || types.has(Types::ARRAY)) || !text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let parsed = strict::parse(text).filter(|parsed| !bounds::is_deeper_than(parsed, depth_max))?;
    types.accept(&parsed).then_some((parsed, RepairRule::JsonStringParsed))
}

/// An integer in its one canonical form.
fn integer(text: &str) -> Option<Number> {
    let number = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok()?;
    (number.to_string() == text).then_some(number)
}

/// A decimal number that a float holds exactly as written.
fn number(text: &str) -> Option<Number> {
    if let Some(integer) = integer(text) {
        return Some(integer);
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let starts_as_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    if digits > EXACT_DIGITS_MAX || !starts_as_number || text.ends_with(char::is_whitespace) {
        return None;
    }
    strict::parse(text).and_then(|value| if let Value::Number(number) = value { Some(number) } else { None })
}

fn integral(number: &Number) -> Option<i64> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let is_exact = float.fract() == 0.0 && float.abs() <= strict::EXACT_FLOAT_MAX;
    #[expect(clippy::cast_possible_truncation, reason = "within 2^53 and without fraction it is exact")]
    is_exact.then_some(float as i64)
}

/// Whether a node may allow null, by its types alone: where that is not sure, null stays.
fn accepts_null(plan: &Plan, id: NodeId) -> bool {
    let node = plan.node(id);
    node.types.accept(&Value::Null)
        && node.also.iter().all(|also| accepts_null(plan, *also))
        && node.alternatives.iter().all(|branches| branches.iter().any(|branch| accepts_null(plan, *branch)))
}

fn is_required(plan: &Plan, id: NodeId, name: &str) -> bool {
    let node = plan.node(id);
    node.required.iter().any(|required| required == name) || node.also.iter().any(|also| is_required(plan, *also, name))
}

/// What trying a value costs.
fn weigh(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(weigh).sum(),
        Value::Object(object) => object.values().map(weigh).sum(),
        Value::String(text) => text.len() / BYTES_PER_STEP,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}
