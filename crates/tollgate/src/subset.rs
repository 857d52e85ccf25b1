//! A door that shows only some of the tools.

use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};
use tollgate_catalog::unknown_tool;
use tollgate_types::{
    AttemptId, BoxFuture, Call, CallKind, Caller, Code, Door, End, ErrorObject, Language, ObservedCall, Outcome,
    ToolDefinition,
};

/// A door to the tools whose names fit one of the globs. A call for any other name is refused as unknown, and recorded.
pub struct Subset {
    door: Arc<dyn Door>,
    globs: GlobSet,
    language: Language,
}

impl Subset {
    /// The part of `door` that fits `globs`.
    ///
    /// # Errors
    /// When a glob cannot be read: a text that names it.
    pub fn new(door: Arc<dyn Door>, globs: &[String]) -> Result<Self, String> {
        let mut set = GlobSetBuilder::new();
        for glob in globs {
            set.add(Glob::new(glob).map_err(|error| format!("the glob `{glob}` cannot be read: {}", error.kind()))?);
        }
        let globs = set.build().map_err(|error| error.to_string())?;
        Ok(Self { door, globs, language: Language::default() })
    }

    /// The same, which speaks this language.
    #[must_use]
    pub fn in_language(self, language: Language) -> Self {
        Self { language, ..self }
    }
}

impl Door for Subset {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        Box::pin(async move {
            let all = self.door.list(caller).await;
            all.into_iter().filter(|definition| self.globs.is_match(&definition.name)).collect()
        })
    }

    fn list_kind<'a>(&'a self, caller: &'a Caller, kind: CallKind) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        Box::pin(async move {
            let all = self.door.list_kind(caller, kind).await;
            all.into_iter().filter(|definition| self.globs.is_match(&definition.name)).collect()
        })
    }

    fn call<'a>(&'a self, caller: &'a Caller, mut call: Call) -> BoxFuture<'a, Outcome> {
        let name = call.name.clone();
        if !self.globs.is_match(&name) {
            call.refusal = Some(unknown_tool(&name, []));
        }
        Box::pin(async move {
            let mut outcome = self.door.call(caller, call).await;
            if outcome.code() == Some(Code::UnknownTool) {
                // The door behind this one would name what it has itself.
                let listed = self.list(caller).await;
                let mut error = unknown_tool(&name, listed.iter().map(|definition| definition.name.as_str()));
                error.put_in(self.language);
                outcome.end = End::Refused(error);
            }
            outcome
        })
    }

    fn permits(&self, caller: &Caller, tool: &ToolDefinition) -> bool {
        self.globs.is_match(&tool.name) && self.door.permits(caller, tool)
    }

    fn observe<'a>(&'a self, caller: &'a Caller, call: ObservedCall) -> BoxFuture<'a, Result<AttemptId, ErrorObject>> {
        self.door.observe(caller, call)
    }
}
