package config

import _ "embed" // the two example files

var (
	//go:embed example/leasesvc.yaml
	exampleService string
	//go:embed example/definitions.yaml
	exampleDefinitions string
)

// Example gives a commented example of a service file and of the definitions
// file that it names. Both are right: a test reads them.
func Example() (service, definitions string) { return exampleService, exampleDefinitions }
