//! What can be wrong with a value at one place.

use super::Language;

macro_rules! flaws {
    ($($(#[doc = $doc:literal])+ $flaw:ident = $en:literal, $zh:literal;)+) => {
        /// One thing that is wrong with the arguments, as a model reads it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Flaw {
            $($(#[doc = $doc])+ $flaw),+
        }

        impl Flaw {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$flaw),+];

            pub(super) fn template(self, language: Language) -> &'static str {
                match (self, language) {
                    $((Self::$flaw, Language::En) => $en, (Self::$flaw, Language::Zh) => $zh),+
                }
            }
        }
    };
}

flaws! {
    /// A property that must be there is not.
    Missing = "`{name}` is required", "缺少必填项 `{name}`";
    /// A property that the schema does not know.
    Unknown = "unknown property {names}", "未知的属性 {names}";
    /// Several of them.
    UnknownMany = "unknown properties {names}", "未知的属性 {names}";
    /// Another type is wanted.
    Type = "expected {types}, got {got}", "应为 {types}，实际为 {got}";
    /// Not one of the enumeration.
    NotOneOf = "{got} is not one of the allowed values", "{got} 不是允许的取值之一";
    /// The same with what was probably meant.
    NotOneOfNear = "{got} is not one of the allowed values (did you mean {near}?)", "{got} 不是允许的取值之一（是否想用 {near}？）";
    /// Not the constant.
    NotTheOne = "{got} is not the one allowed value", "{got} 不是唯一允许的取值";
    /// Below the minimum.
    Less = "{got} is less than {limit}", "{got} 小于 {limit}";
    /// Above the maximum.
    More = "{got} is more than {limit}", "{got} 大于 {limit}";
    /// At or below an exclusive minimum.
    NotMore = "{got} is not more than {limit}", "{got} 必须大于 {limit}";
    /// At or above an exclusive maximum.
    NotLess = "{got} is not less than {limit}", "{got} 必须小于 {limit}";
    /// Not a multiple.
    NotMultiple = "{got} is not a multiple of {limit}", "{got} 不是 {limit} 的倍数";
    /// A text that is too short.
    Shorter = "{got} is shorter than {limit} characters", "{got} 少于 {limit} 个字符";
    /// A text that is too long.
    Longer = "{got} is longer than {limit} characters", "{got} 超过 {limit} 个字符";
    /// A text that does not match.
    Pattern = "{got} does not match the pattern", "{got} 不符合规定的格式";
    /// A text of another format.
    Format = "{got} is not a {format}", "{got} 不是有效的 {format}";
    /// Too few items.
    FewItems = "there are fewer than {limit} items", "少于 {limit} 项";
    /// Too many items.
    ManyItems = "there are more than {limit} items", "超过 {limit} 项";
    /// An item twice.
    Twice = "an item stands twice", "有重复的项";
    /// Too few properties.
    FewProperties = "there are fewer than {limit} properties", "属性少于 {limit} 个";
    /// Too many properties.
    ManyProperties = "there are more than {limit} properties", "属性超过 {limit} 个";
    /// Nothing may stand there.
    NotHere = "is not allowed here", "此处不允许出现";
    /// What the schema excludes.
    Excluded = "{got} is what the schema excludes", "{got} 是被排除的取值";
    /// No item is of the kind that is needed.
    NoneOfKind = "no item is of the kind that is needed", "缺少所需类型的项";
    /// More items than the schema knows.
    UnknownItems = "there are more items than the schema knows", "项数超出规定";
    /// None of the alternatives.
    NoAlternative = "{got} fits none of {count} alternatives", "{got} 不符合 {count} 种形式中的任何一种";
    /// The same with what the nearest one lacks.
    NoAlternativeNear = "{got} fits none of {count} alternatives; for the nearest one, at `{at}`: {what}",
        "{got} 不符合 {count} 种形式中的任何一种；最接近的一种在 `{at}` 处：{what}";
    /// More than one of the alternatives.
    ManyAlternatives = "fits more than one of {count} alternatives", "同时符合 {count} 种形式中的多种";
    /// The name of a property.
    Name = "the property name {name} is wrong: {what}", "属性名 {name} 不正确：{what}";
    /// Anything else.
    Misfit = "does not fit the schema", "不符合规定的结构";
    /// A keyword that has no text of its own.
    Keyword = "does not fit `{keyword}`", "不符合 `{keyword}`";
    /// What a key is made of.
    KeyKind = "the tool's idempotency key must be a text, a number or a boolean", "该工具的幂等键必须是文本、数字或布尔值";
    /// No value where one is promised.
    NoValue = "the tool declares an output schema and returned no value", "工具声明了输出格式，却没有返回值";
}
