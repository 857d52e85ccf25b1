"""Turns gitleaks' rules into the table that `tollgate-guard` reads, and writes it to standard output.

    python3 scripts/gitleaks_rules.py gitleaks.toml > crates/tollgate-guard/src/redact/rules/gitleaks.tsv

`gitleaks.toml` is `config/gitleaks.toml` of github.com/gitleaks/gitleaks. Its notice is kept beside the table, in
`LICENSE-gitleaks`. Each line of the table is a rule: its name, how it is looked for, the words that call for it, the
entropy that its secret must exceed (bits a byte; 0: any), and the pattern; `src/redact/rules.rs` says more. What is left
out, and why, is below.
"""

import re
import sys
import tomllib

# What Tollgate finds by the names that secrets stand under, or by their form, wherever they are.
BY_NAME = """generic-api-key hashicorp-tf-password curl-auth-header curl-auth-user private-key freemius-secret-key
sidekiq-sensitive-url kubernetes-secret-yaml""".split()
# What identifies and is no secret.
IDENTIFIERS = """adobe-client-id asana-client-id bitbucket-client-id discord-client-id linkedin-client-id looker-client-id
messagebird-client-id plaid-client-id sendbird-access-id sumologic-access-id new-relic-user-api-id lob-pub-api-key
mailgun-pub-key flutterwave-public-key""".split()
# What names a file.
FILES = ["pkcs12-file"]
LEFT_OUT = {*BY_NAME, *IDENTIFIERS, *FILES}

# What stands between a vendor's name and its secret in gitleaks' rules, and what ends them.
BEFORE = re.compile(r"^(?:\[\\w\.-\]\{0,50\}\?)?\(\?i[):]\[\\w\.-\]\{0,50\}\?(?P<vendor>.*?)\(\?:\[ \\t\\w\.-\]\{0,20\}\)"
                    r"\[\\s'\"\]\{0,3\}\)?\(\?:=\|>\|:\{1,3\}=\|\\\|\\\|\|:\|=>\|\\\?=\|,\)\[\\x60'\"\\s=\]\{0,5\}")
END = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
ENDS = [END, r"""(?:[\x60'"\s;]|\\[nr]|$|\b)""", r"(?:[^\w-]|\z)", r"(?:[^a-zA-Z0-9+/]|\z)", r"\b"]

# Where the table says it otherwise than gitleaks, because it looks only where a word calls for it.
INSTEAD = {
    "airtable-personnal-access-token": ("word,exact", "pat", r"(pat[[:alnum:]]{14}\.[a-f0-9]{64})"),
    "atlassian-api-token": ("word,exact", "atatt3", r"(ATATT3[A-Za-z0-9_\-=]{186})"),
    "aws-access-token": ("word,exact", None, r"((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})"),
    "harness-api-key": ("word,exact", None, None),
    "lob-api-key": ("word,exact", "test_ live_", r"((?:live|test)_[a-f0-9]{35})"),
    "microsoft-teams-webhook": ("near", "webhook.office.com",
                                r"https://[a-z0-9]+\.webhook\.office\.com/webhookb2/[a-z0-9-]+@[a-z0-9-]+/IncomingWebhook/[a-z0-9]{32}/[a-z0-9-]{36}"),
    "jwt": ("word,exact", "eyj", None),
    "jwt-base64": ("word", "zxlk", r"ZXlK[a-zA-Z0-9/\\_+-]{60,}={0,2}"),
    "slack-webhook-url": ("begins", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{20,80})"),
    "sourcegraph-access-token": ("word,exact", "sgp_", r"(?i)(sgp_(?:(?:[a-f0-9]{16}|local)_)?[a-f0-9]{40})"),
    "twilio-api-key": ("word,exact", "sk", r"(SK[0-9a-fA-F]{32})"),
    "vault-service-token": ("word,exact,digit", "hvs. s.", r"(hvs\.[\w-]{90,120}|s\.(?i:[a-z0-9]{24}))"),
    "nuget-config-password": ("begins", "<add", None),
    "openai-api-key": ("near", None, r"(sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{58,74}T3BlbkFJ[A-Za-z0-9_-]{58,74}|sk-[a-zA-Z0-9]{20}T3BlbkFJ[a-zA-Z0-9]{20})"),
    "cloudflare-origin-ca-key": ("word,exact", "v1.0-", None),
    "facebook-page-access-token": ("word,exact", None, r"(EAA[MC](?i)[a-z0-9]{100,})"),
    "github-app-token": ("begins", None, None),
    "intra42-client-secret": ("word,exact", "s-s4t2ud- s-s4t2af-", None),
    "slack-config-access-token": ("begins", None, None),
    "slack-legacy-token": ("begins", None, None),
    "slack-legacy-workspace-token": ("begins", None, None),
    "slack-user-token": ("begins", None, None),
    "snyk-api-token": ("assigned", "snyk", "(?i)([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"),
    "sonar-api-token": ("assigned", "sonar", r"(?i)((?:squ_|sqp_|sqa_)?[a-z0-9=_\-]{40})"),
}


def stripped(pattern):
    """The pattern without what ends it, and whether something did."""
    for end in ENDS:
        if pattern.endswith(end):
            return pattern[: -len(end)], True
    return pattern, False


def row(rule):
    keywords = [word.lower() for word in rule["keywords"]]
    entropy = rule.get("entropy", 0)
    pattern = rule["regex"]
    how, words, instead = INSTEAD.get(rule["id"], (None, None, None))
    if how:
        keywords = words.split() if words else keywords
        if instead is None:
            instead, _ = stripped(pattern.removeprefix("\\b"))
        return rule["id"], how, keywords, entropy, instead
    assigned = BEFORE.match(pattern)
    if assigned:
        secret, _ = stripped(pattern[assigned.end():])
        vendor = re.sub(r"\(\?-i:|\(\?:|[()]", "", assigned["vendor"])
        names = sorted({name.lower() for name in vendor.split("|") if re.fullmatch(r"[\w-]+", name)})
        return rule["id"], "assigned", names or keywords, entropy, "(?i)" + secret
    body, is_exact = stripped(pattern)
    flags = re.match(r"\(\?i\)", body)
    rest = body[flags.end():] if flags else body
    is_word = rest.startswith("\\b")
    rest = rest.removeprefix("\\b")
    plain = re.sub(r"\\(.)", r"\1", rest).lstrip("(").removeprefix("?:").lower()
    begins = any(plain.startswith(word) for word in keywords) or is_word and len(keywords) > 1
    how = ("word" if is_word else "begins") if begins else "near"
    return rule["id"], how + (",exact" if is_exact and begins else ""), keywords, entropy, (flags[0] if flags else "") + rest


def main():
    with open(sys.argv[1], "rb") as file:
        rules = tomllib.load(file)["rules"]
    print("# gitleaks' rules (MIT, Copyright (c) 2019 Zachary Rice: LICENSE-gitleaks), made by scripts/gitleaks_rules.py")
    for rule in rules:
        if rule["id"] not in LEFT_OUT:
            name, how, keywords, entropy, pattern = row(rule)
            assert "\t" not in pattern and "\n" not in pattern and not any(" " in word for word in keywords)
            print(name, how, " ".join(dict.fromkeys(keywords)), f"{entropy:g}", pattern, sep="\t")


if __name__ == "__main__":
    main()
