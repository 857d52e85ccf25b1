//! The sentences of a story, in each language. What callers, tools and operators wrote stays as it is, and so do codes: they
//! are what one searches for.

use crate::language::Language::{self, En, Zh};

impl Language {
    fn pick(self, en: String, zh: String) -> String {
        match self {
            En => en,
            Zh => zh,
        }
    }

    pub(super) fn status(self, status: &str) -> &str {
        match (self, status) {
            (Zh, "done") => "完成",
            (Zh, "refused") => "被拒绝",
            (Zh, "failed") => "失败",
            (Zh, "waiting") => "等待人工",
            (Zh, "unknown") => "结果不明",
            (Zh, "open") => "尚未结束",
            (_, status) => status,
        }
    }

    /// A status with codes and what else is to be said of it.
    pub(super) fn ended(self, status: &str, codes: &[&str]) -> String {
        let status = self.status(status);
        match codes {
            [] => status.to_owned(),
            codes => self.pick(format!("{status} ({})", codes.join(", ")), format!("{status}（{}）", codes.join("、"))),
        }
    }

    pub(super) fn attempt(self, id: &str) -> String {
        self.pick(format!("attempt {id}"), format!("调用记录 {id}"))
    }

    pub(super) fn erased(self, is_whole: bool) -> String {
        match is_whole {
            true => self.pick("its records are erased".into(), "记录已被抹除".into()),
            false => self.pick("its contents are erased".into(), "内容已被抹除".into()),
        }
    }

    pub(super) fn asked(self, subject: &str, role: &str) -> String {
        self.pick(format!("{subject} asked for it, as {role}"), format!("{subject} 以 {role} 的身份提出调用"))
    }

    pub(super) fn somebody_asked(self) -> String {
        self.pick("somebody asked for it".into(), "有人提出调用".into())
    }

    /// One more fact about who asked, by the key of the record.
    pub(super) fn of_asker(self, key: &str, value: &str) -> String {
        let (en, zh) = match key {
            "tenant" => ("of", "租户"),
            "surface" => ("through", "入口"),
            "session" => ("in session", "会话"),
            _ => ("under the key", "幂等键"),
        };
        self.pick(format!("{en} {value}"), format!("{zh} {value}"))
    }

    /// Between a name and what is said of it.
    pub(super) fn colon(self) -> &'static str {
        match self {
            En => ": ",
            Zh => "：",
        }
    }

    /// Between facts of one sentence.
    pub(super) fn comma(self) -> &'static str {
        match self {
            En => ", ",
            Zh => "，",
        }
    }

    /// A word for people that a record has.
    pub(super) fn note(self, note: &str) -> String {
        match note {
            "" => String::new(),
            note => self.pick(format!(": {note}"), format!("：{note}")),
        }
    }

    pub(super) fn with(self, value: &str) -> String {
        self.pick(format!("  with {value}"), format!("  内容：{value}"))
    }

    pub(super) fn with_erased(self) -> String {
        self.pick("  with content that was erased".into(), "  内容：已被抹除".into())
    }

    pub(super) fn digested(self, length: u64) -> String {
        self.pick(
            format!("{length} characters, of which the ledger keeps the SHA-256"),
            format!("共 {length} 个字符，账本只保留其 SHA-256"),
        )
    }

    pub(super) fn mended(self, repairs: &[String]) -> String {
        self.pick(
            format!("its arguments were mended: {}", repairs.join(", ")),
            format!("参数已被修正：{}", repairs.join("、")),
        )
    }

    pub(super) fn mended_at(self, rule: &str, path: &str) -> String {
        self.pick(format!("{rule} at {path}"), format!("{path} 处 {rule}"))
    }

    pub(super) fn decided(self, policy: &str, effect: &str, rule: &str, reason: &str) -> String {
        self.pick(
            format!("policy {policy} said {effect}, by the rule {rule}: {reason}"),
            format!("策略 {policy} 裁定 {effect}，依据规则 {rule}：{reason}"),
        )
    }

    /// A reason that was erased, where another stood.
    pub(super) fn erased_reason(self) -> String {
        self.pick("a reason that was erased".into(), "理由已被抹除".into())
    }

    pub(super) fn policy_was_asked(self) -> String {
        self.pick("policy was asked".into(), "已询问策略".into())
    }

    pub(super) fn waits(self, approval: &str) -> String {
        self.pick(format!("it waits for a human: approval {approval}"), format!("等待人工审批：审批 {approval}"))
    }

    pub(super) fn answered(self, is_yes: bool, note: &str) -> String {
        match is_yes {
            true => self.pick(format!("a human said yes{note}"), format!("审批人同意{note}")),
            false => self.pick(format!("a human said no{note}"), format!("审批人拒绝{note}")),
        }
    }

    pub(super) fn expired(self, note: &str) -> String {
        self.pick(format!("nobody answered in time{note}"), format!("无人在期限内答复{note}"))
    }

    pub(super) fn began(self, source: &str, sandbox: &str, approval: &str) -> String {
        let under = match approval {
            "" => String::new(),
            approval => self.pick(format!(", under approval {approval}"), format!("，凭审批 {approval}")),
        };
        self.pick(
            format!("the tool began ({source}, isolation: {sandbox}){under}"),
            format!("工具开始运行（来源 {source}，隔离 {sandbox}）{under}"),
        )
    }

    pub(super) fn tool_began(self) -> String {
        self.pick("the tool began".into(), "工具开始运行".into())
    }

    pub(super) fn finished(self, end: &str, note: &str) -> String {
        self.pick(format!("it ended as {end}{note}"), format!("结束：{end}{note}"))
    }

    pub(super) fn took(self, span: &str) -> String {
        self.pick(format!(" after {span}"), format!("，用时 {span}"))
    }

    pub(super) fn retried(self, retries: u64) -> String {
        self.pick(format!(", tried again {retries} time(s)"), format!("，重试 {retries} 次"))
    }

    pub(super) fn settled(self, status: &str, note: &str) -> String {
        let status = self.status(status);
        self.pick(format!("a human said how it ended: {status}{note}"), format!("人工核定结果：{status}{note}"))
    }

    /// How another attempt has to do with this one.
    pub(super) fn relative(self, how: Relation, tool: &str, id: &str, ended: &str) -> String {
        let (en, zh) = match how {
            Relation::Parent => ("it was made on behalf of", "上级调用"),
            Relation::Child => ("on its behalf", "下级调用"),
            Relation::SameApproval => ("under the same approval", "同一审批"),
        };
        self.pick(format!("{en}: {tool} {id}, {ended}"), format!("{zh}：{tool} {id} ，{ended}"))
    }
}

/// How one attempt has to do with another.
#[derive(Clone, Copy)]
pub(super) enum Relation {
    /// It was made by the other's tool.
    Parent,
    /// The other was made by its tool.
    Child,
    /// Both name one question to a human.
    SameApproval,
}
