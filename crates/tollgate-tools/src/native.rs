//! Functions of the embedding program as tools.

use std::future::Future;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tollgate_types::{
    BoxFuture, Category, Cx, Permission, Risk, Source, SourceKind, Tool, ToolDefinition, ToolError, ToolOutput,
    input_schema,
};

/// A function as a tool. The arguments' schema comes from their type; doc comments become descriptions.
///
/// Undeclared risk is dangerous, so that a human is asked: say [`FnTool::risk`].
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use tollgate_tools::native::tool_fn;
/// use tollgate_types::{Cx, Risk, Tool, ToolError};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Weather {
///     /// The city's name, such as 北京.
///     city: String,
/// }
///
/// let tool = tool_fn("get_weather", "Says the weather of a city.", |args: Weather, _cx: Cx| async move {
///     if args.city.is_empty() {
///         return Err(ToolError::new("no city was named").with_hint("ask the user for one"));
///     }
///     Ok(format!("{}: 12 °C", args.city))
/// })
/// .risk(Risk::Read);
/// assert_eq!(tool.definition().input_schema["required"][0], "city");
/// ```
pub fn tool_fn<A, F, Fut, R>(name: impl Into<String>, description: impl Into<String>, function: F) -> FnTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    R: IntoToolOutput,
{
    let mut definition = ToolDefinition::new(name, description);
    definition.input_schema = input_schema::<A>();
    definition.source = Source::of(SourceKind::Native);
    FnTool { definition, function, arguments: PhantomData }
}

/// A function as a tool; made by [`tool_fn`].
pub struct FnTool<A, F> {
    definition: ToolDefinition,
    function: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, F> FnTool<A, F> {
    /// What it does to the world.
    #[must_use]
    pub fn risk(mut self, risk: Risk) -> Self {
        self.definition.risk = risk;
        self
    }

    /// What it needs.
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.definition.permission = permission;
        self
    }

    /// What it is for.
    #[must_use]
    pub fn category(mut self, category: Category) -> Self {
        self.definition.category = category;
        self
    }

    /// When to use it, and when not, naming the neighbour that fits instead.
    #[must_use]
    pub fn when(mut self, when: impl Into<String>, when_not: impl Into<String>) -> Self {
        self.definition.when = Some(when.into());
        self.definition.when_not = Some(when_not.into());
        self
    }

    /// Anything else of the definition.
    #[must_use]
    pub fn define(mut self, change: impl FnOnce(&mut ToolDefinition)) -> Self {
        change(&mut self.definition);
        self
    }
}

impl<A, F, Fut, R> Tool for FnTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(A, Cx) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, ToolError>> + Send + 'static,
    R: IntoToolOutput,
{
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            // The schema comes from the same type, so that what fits it nearly always reads.
            let arguments =
                serde_json::from_value(arguments).map_err(|error| ToolError::invalid("", error.to_string()))?;
            (self.function)(arguments, cx).await?.into_tool_output()
        })
    }
}

/// What a function may return.
pub trait IntoToolOutput {
    /// The output.
    ///
    /// # Errors
    /// When the value has no JSON form.
    fn into_tool_output(self) -> Result<ToolOutput, ToolError>;
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(self)
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for &str {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::text(self))
    }
}

impl IntoToolOutput for Value {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::structured(self))
    }
}

/// A typed value as a structured result.
pub struct Json<T>(pub T);

impl<T: Serialize> IntoToolOutput for Json<T> {
    fn into_tool_output(self) -> Result<ToolOutput, ToolError> {
        serde_json::to_value(self.0)
            .map(ToolOutput::structured)
            .map_err(|error| ToolError::new(format!("the result has no JSON form: {error}")))
    }
}
