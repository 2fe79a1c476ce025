// Light, dark, or as the system says.

export type Theme = "auto" | "light" | "dark";
const KEY = "headrace-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

class ThemeState {
  chosen = $state<Theme>((localStorage.getItem(KEY) as Theme | null) ?? "auto");
  system = $state(dark.matches);
  /** Changes with every switch; canvases read it, for they have to be drawn again. */
  get isDark(): boolean {
    return this.chosen === "auto" ? this.system : this.chosen === "dark";
  }
}

export const theme = new ThemeState();
dark.addEventListener("change", (event) => {
  theme.system = event.matches;
});

export function applyTheme(): void {
  if (theme.chosen === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.chosen;
}

export function nextTheme(): void {
  theme.chosen = theme.isDark ? "light" : "dark";
  localStorage.setItem(KEY, theme.chosen);
  applyTheme();
}

/** The value of a token as a color that a canvas understands. */
export function token(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}
