//! What the `output` of a tool says of values, read once: which fields stay, under which names, and how numbers and times
//! are written.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use tollgate_types::{Language, Output, Unit, limits};

use crate::human;
use crate::path::{self, Step};

/// Why an `output` cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`output.{key}`: {message}")]
pub struct PlanError {
    /// The key below `output`.
    pub key: &'static str,
    /// What is wrong there.
    pub message: String,
}

/// What becomes of a value.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    root: Node,
    /// Whether only what is named stays.
    selects: bool,
    is_plain: bool,
}

/// What is said of a place, and of those below it.
#[derive(Debug, Clone, Default)]
struct Node {
    /// In the order in which they were named.
    below: Vec<(Step, Node)>,
    /// Whether all of this place stays.
    is_kept: bool,
    name: Option<String>,
    form: Option<Form>,
}

#[derive(Debug, Clone)]
enum Form {
    Unit(Unit),
    Time(TimeZone, Option<Language>),
}

impl Plan {
    /// Reads what an `output` says.
    ///
    /// # Errors
    /// When a path, a unit or a time zone cannot be.
    pub fn read(output: &Output) -> Result<Self, PlanError> {
        let paths = output.fields.len() + output.rename.len() + output.units.len() + output.times.len();
        let fault = |key, message: String| PlanError { key, message };
        if paths > limits::OUTPUT_PATHS_MAX {
            return Err(fault("fields", format!("{paths} paths are more than {}", limits::OUTPUT_PATHS_MAX)));
        }
        let mut plan = Self { selects: !output.fields.is_empty(), is_plain: paths == 0, ..Self::default() };
        for path in &output.fields {
            plan.at(path).map_err(|message| fault("fields", message))?.is_kept = true;
        }
        for (path, name) in &output.rename {
            plan.at(path).map_err(|message| fault("rename", message))?.name = Some(name.clone());
        }
        for (path, unit) in &output.units {
            let node = plan.at(path).map_err(|message| fault("units", message))?;
            if !unit.factor.is_finite() || unit.digits > human::DIGITS_MAX {
                let most = human::DIGITS_MAX;
                return Err(fault("units", format!("`{path}` needs a finite factor, and at most {most} digits")));
            }
            node.form = Some(Form::Unit(unit.clone()));
        }
        for (path, time) in &output.times {
            let node = plan.at(path).map_err(|message| fault("times", message))?;
            let zone = human::zone(&time.zone).map_err(|message| fault("times", message))?;
            node.form = Some(Form::Time(zone, time.ago));
        }
        Ok(plan)
    }

    /// Whether values stay as they are.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// The value as it is shown at this time.
    pub fn apply(&self, value: Value, now: Timestamp) -> Value {
        if self.is_plain {
            value
        } else {
            shown(value, &vec![Place { node: &self.root, is_item: false }], self.selects, now)
        }
    }

    fn at(&mut self, path: &str) -> Result<&mut Node, String> {
        let mut node = &mut self.root;
        for step in path::parse(path)? {
            let at = match node.below.iter().position(|(known, _)| *known == step) {
                Some(at) => at,
                None => {
                    node.below.push((step, Node::default()));
                    node.below.len() - 1
                }
            };
            node = node.below.get_mut(at).map(|(_, node)| node).ok_or("a path that cannot be")?;
        }
        Ok(node)
    }
}

/// The places that a value stands at: a name and a `*` may both lead to it.
type Places<'p> = Vec<Place<'p>>;

#[derive(Clone, Copy)]
struct Place<'p> {
    node: &'p Node,
    /// Whether a list was passed through, whose items its `*` already was about.
    is_item: bool,
}

/// `selects` says whether only what is named below stays.
fn shown(value: Value, places: &Places<'_>, selects: bool, now: Timestamp) -> Value {
    if places.is_empty() {
        return value;
    }
    let selects = selects && !places.iter().any(|place| place.node.is_kept);
    match value {
        Value::Array(items) => {
            let items = items.into_iter().enumerate().filter_map(|(at, item)| {
                let below: Places<'_> = places.iter().flat_map(|place| place.item(at)).collect();
                if selects && below.is_empty() { None } else { Some(shown(item, &below, selects, now)) }
            });
            Value::Array(items.collect())
        }
        Value::Object(map) => Value::Object(members(map, places, selects, now)),
        value => match places.iter().find_map(|place| place.node.form.as_ref()) {
            Some(Form::Unit(unit)) => human::in_unit(value, unit),
            Some(Form::Time(zone, ago)) => human::time(value, zone, *ago, now),
            None => value,
        },
    }
}

fn members(mut map: Map<String, Value>, places: &Places<'_>, selects: bool, now: Timestamp) -> Map<String, Value> {
    let mut kept = Map::new();
    let mut keep = |key: String, value: Value| {
        let below: Places<'_> = places.iter().flat_map(|place| place.member(&key)).collect();
        let value = shown(value, &below, selects, now);
        let name = below.iter().find_map(|place| place.node.name.clone());
        kept.insert(name.unwrap_or(key), value);
    };
    if !selects {
        map.into_iter().for_each(|(key, value)| keep(key, value));
        return kept;
    }
    for (step, _) in places.iter().flat_map(Place::steps).filter(|(_, node)| node.leads_to_kept()) {
        match step {
            Step::Name(name) => {
                if let Some((key, value)) = map.shift_remove_entry(name) {
                    keep(key, value);
                }
            }
            Step::Any => std::mem::take(&mut map).into_iter().for_each(|(key, value)| keep(key, value)),
        }
    }
    kept
}

impl<'p> Place<'p> {
    /// What is said of members.
    fn steps(&self) -> impl Iterator<Item = &'p (Step, Node)> {
        let is_item = self.is_item;
        self.node.below.iter().filter(move |(step, _)| !(is_item && *step == Step::Any))
    }

    fn member(&self, key: &str) -> impl Iterator<Item = Place<'p>> {
        let named = self.steps().filter(move |(step, _)| match step {
            Step::Name(name) => name == key,
            Step::Any => true,
        });
        named.map(|(_, node)| Place { node, is_item: false })
    }

    /// A name that meets a list counts for each of its items; a number only for its own.
    fn item(&self, at: usize) -> impl Iterator<Item = Place<'p>> {
        let number = |step: &Step| match step {
            Step::Name(name) => name.parse::<usize>().ok(),
            Step::Any => None,
        };
        let below = &self.node.below;
        let has_names = below.iter().any(|(step, _)| *step != Step::Any && number(step).is_none());
        let itself = (has_names || below.is_empty()).then_some(Place { node: self.node, is_item: true });
        let named = self.steps().filter(move |(step, _)| *step == Step::Any || number(step) == Some(at));
        itself.into_iter().chain(named.map(|(_, node)| Place { node, is_item: false }))
    }
}

impl Node {
    fn leads_to_kept(&self) -> bool {
        self.is_kept || self.below.iter().any(|(_, node)| node.leads_to_kept())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollgate_types::TimeForm;

    use super::*;

    fn now() -> Timestamp {
        "2026-11-30T08:00:00Z".parse().unwrap()
    }

    fn orders() -> Value {
        json!({
            "total": 247, "took_ms": 3,
            "orders": [
                {"id": "A1", "amt": 12345, "created": 1_780_000_000, "internal": {"cost": 1, "tags": ["x"]}},
                {"id": "A2", "amt": 99, "created": "2026-11-27T08:00:00Z"},
            ],
        })
    }

    #[test]
    fn fields_names_units_and_times() {
        let output = Output {
            fields: vec!["orders.id".into(), "orders.amt".into(), "orders.created".into(), "total".into()],
            rename: [("orders.amt".to_owned(), "amount".to_owned())].into(),
            units: [("orders.amt".to_owned(), Unit { factor: 0.01, unit: Some("元".into()), digits: 2 })].into(),
            times: [("orders.created".into(), TimeForm { zone: "Asia/Shanghai".into(), ago: Some(Language::Zh) })]
                .into(),
            ..Output::default()
        };
        let shown = Plan::read(&output).unwrap().apply(orders(), now());
        let expected = r#"{"orders":[{"id":"A1","amount":"123.45 元","created":"2026-05-29 04:26:40 +08:00（6 个月前）"},{"id":"A2","amount":"0.99 元","created":"2026-11-27 16:00:00 +08:00（3 天前）"}],"total":247}"#;
        assert_eq!(shown.to_string(), expected);
    }

    #[test]
    fn stars_numbers_and_what_is_not_there() {
        let of = |fields: &[&str], value: Value| {
            let fields = fields.iter().map(|field| (*field).to_owned()).collect();
            Plan::read(&Output { fields, ..Output::default() }).unwrap().apply(value, now())
        };
        assert_eq!(of(&["id"], json!([{"id": 1, "x": 2}, {"id": 3}])), json!([{"id": 1}, {"id": 3}]));
        assert_eq!(of(&["/*/id"], json!([{"id": 1, "x": 2}])), json!([{"id": 1}]));
        assert_eq!(of(&["/*/id"], json!({"a": {"id": 1, "x": 2}, "b": {"x": 3}})), json!({"a": {"id": 1}, "b": {}}));
        assert_eq!(of(&["/rows/1"], json!({"rows": ["a", "b", "c"]})), json!({"rows": ["b"]}));
        assert_eq!(of(&["orders.internal"], orders())["orders"][0]["internal"]["tags"], json!(["x"]));
        let mixed = json!({"orders": [{"id": "A1", "amt": 12345}, {"id": "A2", "amt": 99}]});
        assert_eq!(of(&["orders.id", "/orders/*/amt"], orders()), mixed);
        assert_eq!(of(&["missing"], orders()), json!({}));
        assert_eq!(of(&["a"], json!("text")), json!("text"));
        let plain = Plan::read(&Output::default()).unwrap();
        assert!(plain.is_plain() && plain.apply(orders(), now()) == orders());
    }

    #[test]
    fn what_cannot_be_followed_is_told_with_its_key() {
        let fault = |output: Output| Plan::read(&output).unwrap_err().to_string();
        assert!(fault(Output { fields: vec!["a..b".into()], ..Output::default() }).starts_with("`output.fields`: "));
        let times = [("a".into(), TimeForm { zone: "Mars/Base".into(), ago: None })].into();
        assert!(fault(Output { times, ..Output::default() }).contains("`Mars/Base`"));
        let units = [("a".into(), Unit { factor: f64::NAN, unit: None, digits: 2 })].into();
        assert!(fault(Output { units, ..Output::default() }).starts_with("`output.units`: "));
        assert!(fault(Output { fields: vec!["a".into(); 201], ..Output::default() }).contains("more than 200"));
    }
}
