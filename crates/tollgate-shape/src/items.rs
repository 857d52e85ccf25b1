//! Values cut at their items: the longest list gives up items until the rest fits.

use serde_json::Value;

use crate::measure::{Limits, Usage, usage_of_json};

/// How many items of a list may be shown, whatever fits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Listing {
    /// Of its beginning, at most.
    pub head: Option<usize>,
    /// Of its end, where not all are shown.
    pub tail: Option<usize>,
    /// Altogether, at most.
    pub most: Option<usize>,
}

impl Listing {
    /// Whether nothing is said.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// How many of so many may stand at the beginning and at the end.
    pub(crate) fn ends(&self, total: usize) -> (usize, usize) {
        let most = self.most.unwrap_or(usize::MAX);
        let (head, tail) = match (self.head, self.tail) {
            (None, None) => return (total.min(most), 0),
            (Some(head), None) => (head, 0),
            (head, Some(tail)) => (head.unwrap_or(0), tail),
        };
        let head = head.min(total);
        let tail = tail.min(total - head).min(most);
        (head.min(most - tail), tail)
    }
}

/// A value of which items were taken away.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemCut {
    /// What is left.
    pub value: Value,
    /// How many items of the longest list that is.
    pub shown: usize,
    /// How many of them stand at its end.
    pub shown_of_end: usize,
    /// How many there were.
    pub total: usize,
    /// The member that the list is; none when the value itself is the list.
    pub key: Option<String>,
    /// Whether it fits now. What holds no list, or one thing that is too long, does not.
    pub fits: bool,
}

/// The longest list of a value.
pub(crate) struct List<'a> {
    pub(crate) key: Option<&'a str>,
    pub(crate) items: &'a [Value],
}

/// The value itself, or the member that takes most.
pub(crate) fn longest_list(value: &Value) -> Option<List<'_>> {
    match value {
        Value::Array(items) => Some(List { key: None, items }),
        Value::Object(map) => {
            let mut lists = map.iter().filter_map(|(key, value)| Some((key, value.as_array()?)));
            let first = lists.next()?;
            let found = match lists.next() {
                None => first,
                Some(second) => {
                    let all = [first, second].into_iter().chain(lists);
                    all.max_by_key(|(_, items)| items.iter().map(|item| usage_of_json(item).bytes).sum::<usize>())?
                }
            };
            Some(List { key: Some(found.0), items: found.1 })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// What is left of a value when its longest list gives up items, within `listing`, until the rest fits; none where nothing
/// has to go. What goes is not read further than the limits reach.
///
/// ```
/// use serde_json::json;
/// use tollgate_shape::{Limits, Listing, cut_value};
///
/// let listing = Listing { head: Some(1), tail: Some(1), most: None };
/// let cut = cut_value(&json!({"rows": [1, 2, 3, 4]}), &Limits::chars(100), listing).unwrap();
/// assert_eq!((cut.value, cut.shown, cut.total), (json!({"rows": [1, 4]}), 2, 4));
/// ```
pub fn cut_value(value: &Value, limits: &Limits, listing: Listing) -> Option<ItemCut> {
    let Some(List { key, items }) = longest_list(value) else {
        let whole = || ItemCut { value: value.clone(), shown: 1, shown_of_end: 0, total: 1, key: None, fits: false };
        return (!limits.hold_json(value)).then(whole);
    };
    let total = items.len();
    let (head, tail) = listing.ends(total);
    if head + tail >= total && limits.hold_json(value) {
        return None;
    }
    let room = limits.minus(frame_of(value, key));
    let (ending, used) = fitting(items.iter().rev().take(tail), &room.half());
    let (beginning, _) = fitting(items.iter().take(head), &room.minus(used));
    let ends = items.iter().take(beginning).chain(items.iter().skip(total - ending));
    let value = with_list(value, key, ends.cloned().collect());
    let fits = limits.hold_json(&value);
    let key = key.map(str::to_owned);
    Some(ItemCut { value, shown: beginning + ending, shown_of_end: ending, total, key, fits })
}

/// A value with another list in the place of the one under `key`.
fn with_list(value: &Value, key: Option<&str>, list: Value) -> Value {
    let Some(map) = value.as_object() else { return list };
    let mut list = Some(list);
    let members = map.iter().map(|(name, value)| {
        let member = if Some(name.as_str()) == key { list.take() } else { None };
        (name.clone(), member.unwrap_or_else(|| value.clone()))
    });
    Value::Object(members.collect())
}

/// How many items fit, and what they take.
fn fitting<'a>(items: impl Iterator<Item = &'a Value>, room: &Limits) -> (usize, Usage) {
    let (mut count, mut used) = (0, Usage::default());
    for item in items {
        let more = used.plus(usage_of_item(item));
        if !room.hold(more) {
            break;
        }
        (count, used) = (count + 1, more);
    }
    (count, used)
}

/// An item and its comma.
fn usage_of_item(item: &Value) -> Usage {
    usage_of_json(item).plus(Usage::ascii(1))
}

/// What the value takes without the items. A list has a comma less than items.
fn frame_of(value: &Value, key: Option<&str>) -> Usage {
    let Some(map) = value.as_object() else { return Usage::ascii(1) };
    let name = |name: &str| usage_of_json(&Value::from(name));
    let others = map.iter().filter(|(other, _)| Some(other.as_str()) != key);
    let frame = name(key.unwrap_or_default()).plus(Usage::ascii(4));
    others.fold(frame, |sum, (other, value)| sum.plus(name(other)).plus(usage_of_item(value)).plus(Usage::ascii(1)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_longest_list_gives_up_its_items() {
        let value = json!({"rows": (0..100).collect::<Vec<_>>(), "columns": ["n"]});
        let cut = cut_value(&value, &Limits::chars(100), Listing::default()).unwrap();
        assert_eq!((cut.total, cut.key.as_deref(), cut.fits), (100, Some("rows"), true));
        assert!(cut.shown > 10 && cut.shown < 100);
        assert_eq!(cut.value["columns"], json!(["n"]));
        assert_eq!(cut_value(&json!([1]), &Limits::chars(3), Listing::default()), None);
        let long = cut_value(&json!("x".repeat(200)), &Limits::chars(100), Listing::default()).unwrap();
        assert!(!long.fits);
        let item = cut_value(&json!(["x".repeat(200)]), &Limits::chars(100), Listing::default()).unwrap();
        assert_eq!((item.value, item.shown, item.fits), (json!([]), 0, true));
    }

    #[test]
    fn ends_and_the_most() {
        let of = |head, tail, most, total| Listing { head, tail, most }.ends(total);
        assert_eq!(of(None, None, None, 9), (9, 0));
        assert_eq!(of(None, None, Some(4), 9), (4, 0));
        assert_eq!(of(Some(2), None, None, 9), (2, 0));
        assert_eq!(of(None, Some(3), None, 9), (0, 3));
        assert_eq!(of(Some(2), Some(3), None, 9), (2, 3));
        assert_eq!(of(Some(2), Some(3), Some(4), 9), (1, 3));
        assert_eq!(of(Some(2), Some(3), None, 5), (2, 3));
        assert_eq!(of(Some(5), Some(5), None, 9), (5, 4));
        assert_eq!(of(Some(20), None, None, 5), (5, 0));
        assert_eq!(of(Some(usize::MAX), Some(usize::MAX), None, 5), (5, 0));
    }

    proptest! {
        /// What is shown is a beginning and an end, whole, and fits.
        #[test]
        fn no_item_is_halved(
            items in prop::collection::vec("[a北\"\\\\\n👍]{0,12}", 0..40), chars in 2_usize..200, tokens in 1_usize..100,
            head in prop::option::of(0_usize..20), tail in prop::option::of(0_usize..20), most in prop::option::of(0_usize..20),
        ) {
            let limits = Limits { chars, bytes: usize::MAX, tokens: Some(tokens) };
            let listing = Listing { head, tail, most };
            match cut_value(&json!(items), &limits, listing) {
                None => prop_assert!(limits.hold(usage_of_json(&json!(items)))),
                Some(cut) => {
                    let shown: Vec<String> = serde_json::from_value(cut.value.clone()).unwrap();
                    let (first, last) = shown.split_at(cut.shown - cut.shown_of_end);
                    prop_assert!(items.starts_with(first) && items.ends_with(last));
                    prop_assert_eq!((shown.len(), items.len()), (cut.shown, cut.total));
                    prop_assert!(cut.fits && cut.shown <= most.unwrap_or(usize::MAX));
                }
            }
        }
    }
}
