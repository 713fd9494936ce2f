//! The page of settings, from their one table.

use bridge_settings::KEYS;

use crate::markdown::{MADE, code, table};

const INTRODUCTION: &str = "\
Flags win over environment variables, these over `bridge.yaml`, and that over defaults. The file is the
one that `MCP_BRIDGE_CONFIG` or `--config` names, otherwise `bridge.yaml` in the state folder or in
`~/.config/mcp-code-bridge/`:

```yaml
memory: 1g
max_timeout: 5m
allow_unenforced: [pids]
```

On the command line any key can be given as `--set KEY=VALUE`. All bad values are reported at once, each
with its source and with what is accepted. The addresses `CONTAINER_HOST`, `DOCKER_HOST` and
`DOCKER_CONTEXT` are read as other tools read them.

";

/// `settings.md`.
pub fn settings() -> String {
    let rows = KEYS.iter().map(|key| {
        [
            code(key.name),
            code(key.variable),
            key.default.to_owned(),
            key.about.to_owned(),
            key.accepts.clone(),
        ]
    });
    let headings = ["key", "variable", "default", "meaning", "accepted"];
    format!(
        "# Settings\n\n{MADE}{INTRODUCTION}{}",
        table(headings, rows)
    )
}
