"""The forms that keys and tokens of the usual issuers have. A table, and nothing else.

Each is told by its prefix or build alone, so it is found inside a longer text as well. Most bounds
are a little below the length that is issued: a cut-off key is a mistake worth telling, too.
"""

import re

_FORMS = {
    "a private key": r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY|PuTTY-User-Key-File-\d"
    r"|AGE-SECRET-KEY-1[0-9A-Z]{20,}",
    "an Anthropic key": r"\bsk-ant-[\w-]{12,}",
    "an OpenAI key": r"\bsk-(?:proj|svcacct|admin|None)-[\w-]{20,}|\bsk-[A-Za-z0-9]{32,}\b",
    "an OpenRouter key": r"\bsk-or-(?:v\d-)?[0-9a-f]{32,}",
    "an AWS key": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}",
    "a GitLab token": r"\bgl(?:pat|dt|ptt|rt|cbt|ft|soat|agent|oas)-[\w-]{16,}",
    "a Slack token": r"\bxox[abcdeoprs](?:\.xox[bp])?-[\w-]{10,}|\bxapp-\d-[\w-]{10,}"
    r"|hooks\.slack\.com/(?:services|workflows)/[\w/]{20,}",
    "a JSON web token": r"\beyJ[\w-]{8,}\.eyJ[\w-]{4,}\.[\w-]*",
    "a Google key": r"\bAIza[\w-]{30,}|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}|\b1//0[\w-]{30,}",
    "a Stripe key": r"\b[srp]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|\bwhsec_[A-Za-z0-9+/]{20,}",
    "a SendGrid key": r"\bSG\.[\w-]{16,}\.[\w-]{16,}",
    "a Twilio key": r"\b(?:AC|SK)[0-9a-f]{32}\b",
    "a Mailgun key": r"\bkey-[0-9a-f]{32}\b",
    "a Mailchimp key": r"\b[0-9a-f]{32}-us\d{1,2}\b",
    "an npm token": r"\bnpm_[A-Za-z0-9]{30,}",
    "a PyPI token": r"\bpypi-[\w-]{50,}",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "a key of a model provider": r"\bgsk_[A-Za-z0-9]{40,}|\bxai-[A-Za-z0-9]{40,}"
    r"|\bpplx-[A-Za-z0-9]{30,}|\br8_[A-Za-z0-9]{30,}|\bfw_[A-Za-z0-9]{20,}\b",
    "a DigitalOcean token": r"\bdo[opr]_v1_[0-9a-f]{40,}",
    "a Databricks token": r"\bdapi[0-9a-f]{32}\b",
    "a Shopify token": r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b",
    "a Square token": r"\bsq0(?:atp|csp)-[\w-]{20,}|\bEAAA[\w-]{60}\b",
    "a Telegram token": r"\b\d{8,10}:AA[\w-]{32,}",
    "a Discord token": r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}"
    r"|discord(?:app)?\.com/api/webhooks/\d+/[\w-]{40,}",
    "an Azure key": r"\b(?:Account|SharedAccess)Key=[A-Za-z0-9+/]{40,}|[?&]sig=[\w%+/-]{40,}",
    "a Vault token": r"\bhv[sbr]\.[\w-]{24,}",
    "a Sentry token": r"\bsntry[su]_[\w+/=-]{40,}",
    "a Linear, Notion, Figma or Postman key": r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}"
    r"|\bntn_[A-Za-z0-9]{40,}|\bfigd_[\w-]{36,}|\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b",
    "a Grafana token": r"\bglsa_[A-Za-z0-9]{32}_[0-9a-f]{8}\b|\bglc_[A-Za-z0-9+/=]{32,}",
    "a Supabase, Doppler or Fly token": r"\bsbp_[0-9a-f]{40}\b"
    r"|\bdp\.(?:pt|st|ct|sa)\.[\w.-]{30,}|\bFlyV1 fm\d_[\w+/=,-]{40,}",
    "an Atlassian token": r"\bATATT3x[\w=-]{50,}|\bATCTT3x[\w=-]{50,}",
    "an Airtable token": r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b",
    "a New Relic key": r"\bNRAK-[A-Z0-9]{27}\b",
    "a Docker token": r"\bdckr_pat_[\w-]{20,}",
}
FORMS = [(what, re.compile(form)) for what, form in _FORMS.items()]
"""What it is, for people, and how it is told."""
