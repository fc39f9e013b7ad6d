#!/usr/bin/env python3
"""A picture of the running program: drives build/logitspec in tmux and draws its screen as SVG.

Usage: screenshot.py OUT.svg [COLSxROWS] [KEYS...]   (keys as tmux names them; {wait} waits for the answer's end)
"""
import html
import os
import re
import subprocess
import sys
import time

BASE = ["#1c1f26", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#dcdfe4"]
CELL_W, CELL_H = 8.43, 18


def color(n):
    if n < 8:
        return BASE[n]
    if n < 16:
        return ["#5c6370", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#ffffff"][n - 8]
    if n >= 232:
        v = 8 + 10 * (n - 232)
        return f"#{v:02x}{v:02x}{v:02x}"
    n -= 16
    level = [0, 95, 135, 175, 215, 255]
    return "#%02x%02x%02x" % (level[n // 36], level[n // 6 % 6], level[n % 6])


def to_svg(ansi, cols, rows):
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {cols * CELL_W + 20:.0f} {rows * CELL_H + 20}" '
           'font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14">',
           f'<rect width="100%" height="100%" rx="6" fill="{BASE[0]}"/>']
    for row, line in enumerate(ansi.split("\n")[:rows]):
        x, style = 0, {}
        for part in re.split(r"(\x1b\[[0-9;]*m)", line):
            m = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
            if m:
                codes = [int(c or 0) for c in m.group(1).split(";")]
                while codes:
                    c = codes.pop(0)
                    if c == 0:
                        style = {}
                    elif c in (1, 2, 4, 7):
                        style[c] = True
                    elif c in (38, 48) and codes[:1] == [5]:
                        style[c] = codes[1]
                        codes = codes[2:]
                    elif c in (39, 49):
                        style.pop(c - 1, None)
                    elif 30 <= c <= 37:
                        style[38] = c - 30
                    elif 40 <= c <= 47:
                        style[48] = c - 40
                continue
            if not part:
                continue
            fg, bg = color(style[38]) if 38 in style else "#dcdfe4", color(style[48]) if 48 in style else None
            if style.get(7):
                fg, bg = bg or BASE[0], fg
            left, top, width = 10 + x * CELL_W, 10 + row * CELL_H, len(part) * CELL_W
            if bg:
                out.append(f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{CELL_H}" fill="{bg}"/>')
            if part.strip() or style.get(4):
                attrs = ' font-weight="bold"' if style.get(1) else ""
                attrs += ' opacity="0.6"' if style.get(2) else ""
                attrs += ' text-decoration="underline"' if style.get(4) else ""
                out.append(f'<text x="{left:.1f}" y="{top + 13.5}" fill="{fg}" textLength="{width:.1f}" '
                           f'lengthAdjust="spacingAndGlyphs" xml:space="preserve"{attrs}>{html.escape(part)}</text>')
            x += len(part)
    return "\n".join(out + ["</svg>\n"])


def main():
    out = sys.argv[1]
    cols, rows = (int(v) for v in (sys.argv[2] if len(sys.argv) > 2 else "120x36").split("x"))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    tmux = ["tmux", "-u", "-L", f"shot{os.getpid()}"]
    env = dict(os.environ, LANG="C.UTF-8", TERM="xterm-256color")
    subprocess.run(tmux + ["-f", "/dev/null", "new-session", "-d", "-s", "s", "-x", str(cols), "-y", str(rows),
                           os.path.join(root, "build/logitspec") + " " + os.environ.get("ARGS", "")], env=env, check=True)
    subprocess.run(tmux + ["set", "-g", "default-terminal", "tmux-256color"], check=False)

    def screen(*flags):
        return subprocess.run(tmux + ["capture-pane", "-p", "-t", "s", *flags], capture_output=True, text=True).stdout

    def wait(word):
        end = time.time() + 60
        while word not in screen() and time.time() < end:
            time.sleep(0.05)

    try:
        wait("READY")
        for key in sys.argv[3:]:
            if key == "{wait}":
                wait("READY")
            else:
                subprocess.run(tmux + ["send-keys", "-t", "s", key], check=True)
            time.sleep(0.3)
        time.sleep(0.3)
        with open(out, "w", encoding="utf-8") as f:
            f.write(to_svg(screen("-e", "-N"), cols, rows))
    finally:
        subprocess.run(tmux + ["kill-server"], check=False)


if __name__ == "__main__":
    main()
