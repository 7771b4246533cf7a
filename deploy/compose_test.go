package deploy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

const composeFile = "../docker-compose.yml"

// compose is what the tests look at of the file.
type compose struct {
	Services map[string]container `yaml:"services"`
	Volumes  map[string]any       `yaml:"volumes"`
}

type container struct {
	Image       string            `yaml:"image"`
	Build       build             `yaml:"build"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck *struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	StopGracePeriod string   `yaml:"stop_grace_period"`
	Command         []string `yaml:"command"`
}

type build struct {
	Context string `yaml:"context"`
	Target  string `yaml:"target"`
}

func readCompose(t *testing.T) compose {
	t.Helper()
	text, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestComposeFileIsRightByTheSpecification, as its JSON Schema says it: unknown keys
// and wrong types are errors.
func TestComposeFileIsRightByTheSpecification(t *testing.T) {
	text, err := os.ReadFile("testdata/compose-spec/compose-spec.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("compose-spec.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("compose-spec.json")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	var good any
	if err := yaml.Unmarshal(file, &good); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(good); err != nil {
		t.Error(err)
	}
	// It would say so if something were wrong.
	for _, wrong := range []string{"    imagee: x\n", "    ports: 8250\n", "    depends_on: {keys: {condition: soon}}\n"} {
		var bad any
		if err := yaml.Unmarshal([]byte("services:\n  a:\n    image: b\n"+wrong), &bad); err != nil {
			t.Fatal(err)
		}
		if schema.Validate(bad) == nil {
			t.Errorf("taken: %s", wrong)
		}
	}
}

// TestComposeFileByDocker asks docker itself where it has compose; the schema and the
// tests beside this one are what is checked elsewhere.
func TestComposeFileByDocker(t *testing.T) {
	if err := exec.Command("docker", "compose", "version").Run(); err != nil {
		t.Log("no docker compose here: checked by the schema alone")
		return
	}
	out, err := exec.Command("docker", "compose", "--file", composeFile, "config", "--quiet").CombinedOutput()
	if err != nil {
		t.Errorf("docker compose config: %v\n%s", err, out)
	}
}

// TestComposeFileHasAll that makes up the whole.
func TestComposeFileHasAll(t *testing.T) {
	c := readCompose(t)
	for _, name := range []string{
		"keys", "nats-1", "nats-2", "nats-3", "postgres", "rabbitmq", "redis", "openbao", "openbao-setup",
		"leasesvc-1", "leasesvc-2", "demo", "prometheus", "grafana",
	} {
		if _, ok := c.Services[name]; !ok {
			t.Errorf("there is no service %s", name)
		}
	}
	for name, s := range c.Services {
		switch {
		case s.Build.Context != "":
		case !regexp.MustCompile(`:[v0-9]`).MatchString(s.Image):
			t.Errorf("%s: the image %q names no version", name, s.Image)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to others than this machine", name, p)
			}
		}
		if strings.HasPrefix(s.Image, "leasesvc") && name != "keys" && (!s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"})) {
			t.Errorf("%s may write to its image or has capabilities", name)
		}
	}
}

// variable is one that compose puts in. $$ is a $ for the shell.
var variable = regexp.MustCompile(`\$\{[A-Z_]+(:-[^}]*)?\}`)

// TestComposeFileHoldsTogether: each mount of ours exists, each volume is declared
// and used, each service depended on is there and can come to be what is waited for,
// each target is one of the Dockerfile's, each variable has a default.
func TestComposeFileHoldsTogether(t *testing.T) {
	c := readCompose(t)
	if len(c.Services) == 0 {
		t.Fatal("no services were read")
	}
	targets := stages(t)
	used := map[string]bool{}
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			_, declared := c.Volumes[source]
			used[source] = true
			if strings.HasPrefix(source, ".") {
				_, err := os.Stat(filepath.Join("..", source))
				declared = err == nil
			}
			if !declared {
				t.Errorf("service %s mounts %s, which does not exist", name, source)
			}
		}
		for other, d := range s.DependsOn {
			o, ok := c.Services[other]
			if !ok {
				t.Errorf("service %s depends on %s, which does not exist", name, other)
			}
			if d.Condition == "service_healthy" && o.Healthcheck == nil {
				t.Errorf("service %s waits for %s to be healthy, which says nothing of its health", name, other)
			}
		}
		if _, ok := targets[s.Build.Target]; s.Build.Context != "" && !ok {
			t.Errorf("service %s: the Dockerfile has no stage %q", name, s.Build.Target)
		}
	}
	for v := range c.Volumes {
		if !used[v] {
			t.Errorf("nobody mounts the volume %s", v)
		}
	}
	text, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variable.FindAllString(string(text), -1) {
		if !strings.Contains(v, ":-") {
			t.Errorf("%s has no default", v)
		}
	}
	if rest := variable.ReplaceAllString(strings.ReplaceAll(string(text), "$$", ""), ""); strings.Contains(rest, "$") {
		t.Error("there is a $ that compose would take for a variable")
	}
}

// TestFilesThatAreNamedExist: what the containers' commands and configurations name
// below a mount of ours is in the repository, or in a volume that a script fills.
func TestFilesThatAreNamedExist(t *testing.T) {
	made := map[string]bool{}
	for _, script := range []string{"keys.sh", "openbao/setup.sh"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^make ([a-z.-]+) `).FindAllStringSubmatch(string(text), -1) {
			made["/secrets/"+m[1]] = true
		}
		for _, m := range regexp.MustCompile(`mv .* "\$secrets/([a-z/.-]+)"`).FindAllStringSubmatch(string(text), -1) {
			made["/secrets/"+m[1]] = true
		}
	}
	// The two that keys.sh makes in a loop.
	made["/secrets/leasesvc/leasesvc.yaml"], made["/secrets/leasesvc/definitions.yaml"] = true, true
	if len(made) < 8 {
		t.Fatalf("only %d files were found in the scripts: %v", len(made), made)
	}
	seen := 0
	for _, file := range []string{composeFile, "leasesvc/leasesvc.yaml", "prometheus/prometheus.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range regexp.MustCompile(`/secrets/[a-z][a-z/.-]*[a-z]`).FindAllString(string(text), -1) {
			seen++
			if !made[path] {
				t.Errorf("%s names %s, which nothing makes", file, path)
			}
		}
	}
	if seen < 12 {
		t.Errorf("only %d paths were looked at", seen)
	}
}
