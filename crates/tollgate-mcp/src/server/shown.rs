//! What lists show of definitions, made once for each: a definition never changes, and the same thousand are listed again and
//! again. It is kept for as long as the definition lives.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use serde_json::value::RawValue;
use tollgate_types::ToolDefinition;

/// What is kept before those whose definition is gone are let go.
const KEPT_MAX: usize = 8 * 1024;

/// By the address of the definition, which belongs to no other for as long as this holds it.
static KEPT: LazyLock<Mutex<HashMap<usize, Kept>>> = LazyLock::new(Mutex::default);

struct Kept {
    of: Weak<ToolDefinition>,
    shown: Shown,
}

/// What is shown of a definition.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// None where it cannot be shown.
    pub(super) text: Option<Arc<RawValue>>,
    /// Another for another text.
    pub(super) mark: u64,
}

impl Shown {
    fn of(text: Option<Box<RawValue>>) -> Self {
        let mut hasher = DefaultHasher::new();
        text.as_deref().map(RawValue::get).hash(&mut hasher);
        Self { text: text.map(Arc::from), mark: hasher.finish() }
    }
}

/// What `make` says of a definition, which is asked for each only once.
pub(super) fn once(of: &Arc<ToolDefinition>, make: impl FnOnce(&ToolDefinition) -> Option<Box<RawValue>>) -> Shown {
    let at = Arc::as_ptr(of).addr();
    if let Some(kept) = KEPT.lock().unwrap_or_else(PoisonError::into_inner).get(&at) {
        return kept.shown.clone();
    }
    let shown = Shown::of(make(of));
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if kept.len() >= KEPT_MAX {
        kept.retain(|_, kept| kept.of.strong_count() > 0);
        if kept.len() >= KEPT_MAX {
            // So many are alive: the next list begins anew.
            kept.clear();
        }
    }
    kept.insert(at, Kept { of: Arc::downgrade(of), shown: shown.clone() });
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> Option<Box<RawValue>> {
        Some(RawValue::from_string(json.to_owned()).unwrap())
    }

    #[test]
    fn each_definition_is_made_into_text_once_and_no_other_is_taken_for_it() {
        let definition = || Arc::new(ToolDefinition::new("t", "d"));
        let first = definition();
        assert_eq!(once(&first, |_| text("1")).text.unwrap().get(), "1");
        assert_eq!(once(&first, |_| unreachable!("it is kept")).text.unwrap().get(), "1");
        drop(first);
        // The place of what is gone is given to no other, whatever comes and goes.
        for n in 0..3 * KEPT_MAX {
            let one = definition();
            let said = n.to_string();
            assert_eq!(once(&one, |_| text(&said)).text.unwrap().get(), said);
        }
        assert!(KEPT.lock().unwrap().len() <= KEPT_MAX);
    }
}
