//! What was lowered lately. Tools seldom change between two requests of a conversation.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_types::ToolDefinition;

use super::{Lowered, Target, lower};

/// Sets of tools that are remembered: a few dialects, a few roles.
const KEPT_MAX: usize = 8;

/// The tools lowered lately, by target and by the definitions themselves.
#[derive(Debug, Default)]
pub struct Lowerings {
    kept: Mutex<VecDeque<Kept>>,
}

#[derive(Debug)]
struct Kept {
    target: Target,
    /// Held, so that no other definition can come to stand at the same place.
    definitions: Vec<Arc<ToolDefinition>>,
    lowered: Lowered,
}

impl Kept {
    fn is_of(&self, definitions: &[Arc<ToolDefinition>], target: &Target) -> bool {
        self.target == *target
            && self.definitions.len() == definitions.len()
            && self.definitions.iter().zip(definitions).all(|(kept, asked)| Arc::ptr_eq(kept, asked))
    }
}

impl Lowerings {
    /// As [`lower`], but that the same definitions are lowered once for a target.
    ///
    /// # Errors
    /// As [`lower`].
    pub fn lower(&self, definitions: &[Arc<ToolDefinition>], target: &Target) -> Result<Lowered, serde_json::Error> {
        if let Some(lowered) = self.find(definitions, target) {
            return Ok(lowered);
        }
        let lowered = lower(definitions, target)?;
        let kept = Kept { target: *target, definitions: definitions.to_vec(), lowered: lowered.clone() };
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        all.truncate(KEPT_MAX - 1);
        all.push_front(kept);
        Ok(lowered)
    }

    fn find(&self, definitions: &[Arc<ToolDefinition>], target: &Target) -> Option<Lowered> {
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let index = all.iter().position(|kept| kept.is_of(definitions, target))?;
        let kept = all.remove(index)?;
        let lowered = kept.lowered.clone();
        all.push_front(kept);
        Some(lowered)
    }
}
