//! Where each host keeps its server list, by its own documentation, on Linux, macOS and Windows.
//!
//! Leaves out: files that only its makers or managers of a machine write, profiles of editors, and
//! editions under other names.

use std::path::PathBuf;

use super::Host;

/// The kind of machine, as far as folders go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Linux and other systems with XDG folders.
    Linux,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

impl Platform {
    /// The one that this program runs on.
    pub const HERE: Self = if cfg!(windows) {
        Self::Windows
    } else if cfg!(target_os = "macos") {
        Self::Mac
    } else {
        Self::Linux
    };
}

/// The folders of a person and a run.
#[derive(Debug, Clone)]
pub struct Places {
    /// The kind of machine.
    pub platform: Platform,
    /// The home folder.
    pub home: PathBuf,
    /// `XDG_CONFIG_HOME`, where it is set.
    pub xdg_config: Option<PathBuf>,
    /// `APPDATA` (Windows).
    pub app_data: Option<PathBuf>,
    /// `CLAUDE_CONFIG_DIR`, where it is set.
    pub claude: Option<PathBuf>,
    /// `CODEX_HOME`, where it is set.
    pub codex: Option<PathBuf>,
    /// The folder that the run is bound to.
    pub workspace: PathBuf,
}

/// A place where a host looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The path.
    pub path: PathBuf,
    /// It belongs to the workspace, not to the person.
    pub project: bool,
}

impl Places {
    /// The files of a host, those of the person first. Of several of one kind the first is the usual one.
    pub fn of(&self, host: Host) -> Vec<File> {
        let person = self.person(host).into_iter().map(|path| File {
            path,
            project: false,
        });
        let project = project(host).iter().map(|path| File {
            path: self.workspace.join(path),
            project: true,
        });
        person.chain(project).collect()
    }

    /// The folder of programs' settings.
    fn settings(&self) -> PathBuf {
        match self.platform {
            Platform::Linux => self.xdg(),
            Platform::Mac => self.home.join("Library/Application Support"),
            Platform::Windows => {
                let usual = || self.home.join("AppData/Roaming");
                self.app_data.clone().unwrap_or_else(usual)
            }
        }
    }

    fn xdg(&self) -> PathBuf {
        let usual = || self.home.join(".config");
        self.xdg_config.clone().unwrap_or_else(usual)
    }

    fn person(&self, host: Host) -> Vec<PathBuf> {
        let home = |path: &str| self.home.join(path);
        match host {
            Host::Claude => {
                let folder = self.claude.as_deref().unwrap_or(&self.home);
                vec![folder.join(".claude.json")]
            }
            Host::ClaudeDesktop => vec![self.settings().join("Claude/claude_desktop_config.json")],
            Host::Codex => {
                let folder = self.codex.clone().unwrap_or_else(|| home(".codex"));
                vec![folder.join("config.toml")]
            }
            Host::VsCode => {
                let user = self.settings().join("Code/User");
                vec![user.join("mcp.json"), user.join("settings.json")]
            }
            Host::Cursor => vec![home(".cursor/mcp.json")],
            Host::Gemini => vec![home(".gemini/settings.json")],
            Host::Opencode => {
                let folder = self.xdg().join("opencode");
                ["opencode.json", "opencode.jsonc", "config.json"]
                    .map(|name| folder.join(name))
                    .into()
            }
            Host::Zed if self.platform == Platform::Windows => {
                vec![self.settings().join("Zed/settings.json")]
            }
            Host::Zed => vec![self.xdg().join("zed/settings.json")],
        }
    }
}

/// Files in the workspace. Claude Code's `.mcp.json` is missing on purpose: it is one of ours too.
fn project(host: Host) -> &'static [&'static str] {
    match host {
        Host::Claude | Host::ClaudeDesktop => &[],
        Host::Codex => &[".codex/config.toml"],
        Host::VsCode => &[".vscode/mcp.json"],
        Host::Cursor => &[".cursor/mcp.json"],
        Host::Gemini => &[".gemini/settings.json"],
        Host::Opencode => &["opencode.json", "opencode.jsonc", ".opencode/opencode.json"],
        Host::Zed => &[".zed/settings.json"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(change: impl FnOnce(&mut Places)) -> String {
        let mut places = Places {
            platform: Platform::Linux,
            home: "/home/ada".into(),
            xdg_config: None,
            app_data: None,
            claude: None,
            codex: None,
            workspace: "/project".into(),
        };
        change(&mut places);
        let paths = Host::ALL.into_iter().flat_map(|host| places.of(host));
        let paths: Vec<_> = paths.map(|file| file.path.display().to_string()).collect();
        paths.join("\n")
    }

    #[test]
    fn on_linux() {
        insta::assert_snapshot!(list(|_| {}), @r#"
        /home/ada/.claude.json
        /home/ada/.config/Claude/claude_desktop_config.json
        /home/ada/.codex/config.toml
        /project/.codex/config.toml
        /home/ada/.config/Code/User/mcp.json
        /home/ada/.config/Code/User/settings.json
        /project/.vscode/mcp.json
        /home/ada/.cursor/mcp.json
        /project/.cursor/mcp.json
        /home/ada/.gemini/settings.json
        /project/.gemini/settings.json
        /home/ada/.config/opencode/opencode.json
        /home/ada/.config/opencode/opencode.jsonc
        /home/ada/.config/opencode/config.json
        /project/opencode.json
        /project/opencode.jsonc
        /project/.opencode/opencode.json
        /home/ada/.config/zed/settings.json
        /project/.zed/settings.json
        "#);
    }

    #[test]
    fn on_a_mac() {
        let said = list(|places| {
            (places.platform, places.home) = (Platform::Mac, "/Users/ada".into());
        });
        insta::assert_snapshot!(said, @r#"
        /Users/ada/.claude.json
        /Users/ada/Library/Application Support/Claude/claude_desktop_config.json
        /Users/ada/.codex/config.toml
        /project/.codex/config.toml
        /Users/ada/Library/Application Support/Code/User/mcp.json
        /Users/ada/Library/Application Support/Code/User/settings.json
        /project/.vscode/mcp.json
        /Users/ada/.cursor/mcp.json
        /project/.cursor/mcp.json
        /Users/ada/.gemini/settings.json
        /project/.gemini/settings.json
        /Users/ada/.config/opencode/opencode.json
        /Users/ada/.config/opencode/opencode.jsonc
        /Users/ada/.config/opencode/config.json
        /project/opencode.json
        /project/opencode.jsonc
        /project/.opencode/opencode.json
        /Users/ada/.config/zed/settings.json
        /project/.zed/settings.json
        "#);
    }

    #[test]
    fn on_windows_and_where_variables_say_otherwise() {
        let said = list(|places| {
            (places.platform, places.home) = (Platform::Windows, "/Users/ada".into());
            places.app_data = Some("/users/ada/appdata".into());
            places.codex = Some("/codex".into());
            places.claude = Some("/claude".into());
        });
        insta::assert_snapshot!(said, @r#"
        /claude/.claude.json
        /users/ada/appdata/Claude/claude_desktop_config.json
        /codex/config.toml
        /project/.codex/config.toml
        /users/ada/appdata/Code/User/mcp.json
        /users/ada/appdata/Code/User/settings.json
        /project/.vscode/mcp.json
        /Users/ada/.cursor/mcp.json
        /project/.cursor/mcp.json
        /Users/ada/.gemini/settings.json
        /project/.gemini/settings.json
        /Users/ada/.config/opencode/opencode.json
        /Users/ada/.config/opencode/opencode.jsonc
        /Users/ada/.config/opencode/config.json
        /project/opencode.json
        /project/opencode.jsonc
        /project/.opencode/opencode.json
        /users/ada/appdata/Zed/settings.json
        /project/.zed/settings.json
        "#);
    }
}
