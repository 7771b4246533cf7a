package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints a script that completes commands, flags and the words that a flag
// takes. It is made from the commands as they are.
func (c completionCmd) Run(k *kong.Kong) error {
	words := completions(k.Model.Node, "")
	switch c.Shell {
	case "fish":
		return fishCompletion(os.Stdout, words)
	default:
		return bashCompletion(os.Stdout, words, c.Shell == "zsh")
	}
}

// completion is what may follow a command.
type completion struct {
	path  string // the command's words, "" for none yet
	below []word // commands
	flags []word // with their dashes
	words map[string][]string
}

type word struct{ text, help string }

// completions walks the commands.
func completions(n *kong.Node, path string) []completion {
	c := completion{path: path, words: map[string][]string{}}
	for _, f := range n.AllFlags(true) {
		for _, flag := range f {
			name := "--" + flag.Name
			c.flags = append(c.flags, word{name, flag.Help})
			if flag.Enum != "" {
				c.words[name] = strings.Split(flag.Enum, ",")
				if flag.Short != 0 {
					c.words["-"+string(flag.Short)] = c.words[name]
				}
			}
		}
	}
	for _, p := range n.Positional {
		if p.Enum != "" {
			for _, w := range strings.Split(p.Enum, ",") {
				c.below = append(c.below, word{w, ""})
			}
		}
	}
	var all []completion
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		c.below = append(c.below, word{child.Name, child.Help})
		all = append(all, completions(child, strings.TrimSpace(path+" "+child.Name))...)
	}
	return append([]completion{c}, all...)
}

func texts(words []word) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w.text
	}
	return strings.Join(out, " ")
}

func bashCompletion(w io.Writer, all []completion, zsh bool) error {
	var b strings.Builder
	if zsh {
		b.WriteString("# Put this where zsh finds it, or: source <(leasesvc completion zsh)\nautoload -U +X bashcompinit && bashcompinit\n")
	} else {
		b.WriteString("# source <(leasesvc completion bash)\n")
	}
	b.WriteString("_leasesvc() {\n  local path=\"\" w cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n" +
		"  for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    case \"$path $w\" in\n")
	var known []string
	for _, c := range all {
		if c.path == "" {
			continue
		}
		parent, name := "", c.path
		if i := strings.LastIndex(c.path, " "); i >= 0 {
			parent, name = c.path[:i], c.path[i+1:]
		}
		known = append(known, fmt.Sprintf("%q", parent+" "+name))
	}
	fmt.Fprintf(&b, "      %s) path=\"${path:+$path }$w\" ;;\n    esac\n  done\n  case \"$path $prev\" in\n", strings.Join(known, "|"))
	for _, c := range all {
		for _, f := range sortedKeysOf(c.words) {
			fmt.Fprintf(&b, "    %q) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", c.path+" "+f, strings.Join(c.words[f], " "))
		}
	}
	b.WriteString("  esac\n  case \"$path\" in\n")
	for _, c := range all {
		fmt.Fprintf(&b, "    %q) if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W %q -- \"$cur\")); else COMPREPLY=($(compgen -W %q -- \"$cur\")); fi ;;\n", c.path, texts(c.flags), texts(c.below))
	}
	b.WriteString("  esac\n}\ncomplete -o default -F _leasesvc leasesvc\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func fishCompletion(w io.Writer, all []completion) error {
	var b strings.Builder
	b.WriteString("# leasesvc completion fish | source\n")
	quote := func(s string) string {
		return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", `\'`) + "'"
	}
	for _, c := range all {
		when := "__fish_use_subcommand"
		if c.path != "" {
			var parts []string
			for _, p := range strings.Fields(c.path) {
				parts = append(parts, "__fish_seen_subcommand_from "+p)
			}
			when = strings.Join(parts, "; and ")
		}
		for _, sub := range c.below {
			fmt.Fprintf(&b, "complete -c leasesvc -f -n %s -a %s -d %s\n", quote(when), quote(sub.text), quote(sub.help))
		}
		for _, f := range c.flags {
			words := ""
			if list := c.words[f.text]; list != nil {
				words = " -x -a " + quote(strings.Join(list, " "))
			}
			fmt.Fprintf(&b, "complete -c leasesvc -n %s -l %s%s -d %s\n", quote(when), strings.TrimPrefix(f.text, "--"), words, quote(f.help))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func sortedKeysOf[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
