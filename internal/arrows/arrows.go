// Package arrows tests the direction of imports between the packages of this
// module: the arrows of docs/architecture.md. A test that breaks says which
// import it was and why the arrow does not exist.
package arrows

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Module is this module's path.
const Module = "github.com/leasesvc/leasesvc"

// Allow says what a package may import. Its tests are not looked at: a test
// may wire what the package itself must not know.
type Allow struct {
	// Internal lists packages of this module, as paths below it ("events").
	// They are the only ones that may be imported, also through others.
	Internal []string
	// External lists module paths (or prefixes of them) that may be imported
	// directly; nil allows the standard library only. "*" allows all.
	External []string
	// Why is printed when the test fails: what the arrow protects.
	Why string
}

// Check fails t when the package in the current directory imports something
// that allow does not name.
func Check(t *testing.T, allow Allow) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkg struct {
		ImportPath    string
		Imports, Deps []string
	}
	if err := json.Unmarshal(out, &pkg); err != nil {
		t.Fatalf("decoding go list: %v", err)
	}
	for _, dep := range pkg.Deps {
		below, ours := strings.CutPrefix(dep, Module+"/")
		if ours && !slices.Contains(allow.Internal, below) {
			t.Errorf("%s depends on %s: there is no such arrow. %s", pkg.ImportPath, dep, allow.Why)
		}
	}
	for _, imp := range pkg.Imports {
		first, _, _ := strings.Cut(imp, "/")
		if !strings.Contains(first, ".") || strings.HasPrefix(imp, Module+"/") {
			continue
		}
		ok := slices.ContainsFunc(allow.External, func(p string) bool {
			return p == "*" || imp == p || strings.HasPrefix(imp, p+"/")
		})
		if !ok {
			t.Errorf("%s imports %s: not among %v. %s", pkg.ImportPath, imp, allow.External, allow.Why)
		}
	}
}
