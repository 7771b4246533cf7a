package main

import (
	"context"
	"fmt"
	"os"

	"github.com/leasesvc/leasesvc/events"
	"github.com/leasesvc/leasesvc/service"
	"github.com/leasesvc/leasesvc/service/config"
)

type configCmd struct {
	Check   configCheckCmd   `cmd:"" help:"Read a service file and its definitions, and say everything that is wrong with them."`
	Example configExampleCmd `cmd:"" help:"Print a commented example of a service file, or of a definitions file."`
	Schema  configSchemaCmd  `cmd:"" help:"Print the JSON Schema of a service file, or of a definitions file, for editors."`
}

type configCheckCmd struct {
	output
	Config string `arg:"" placeholder:"FILE" help:"The service file."`
}

func (c configCheckCmd) Run(context.Context) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	if err := service.CheckDefinitions(cfg); err != nil {
		return err
	}
	out := struct {
		File   string   `json:"file"`
		Right  bool     `json:"right"`
		Scopes []string `json:"scopes"`
	}{c.Config, true, cfg.ScopeNames()}
	return c.print(out, func(p *page) {
		p.line(plain, "%s and the definitions of %s are right", c.Config, events.Counted(len(cfg.Scopes), "scope"))
	})
}

type configExampleCmd struct {
	Definitions bool `help:"Print the definitions file instead of the service file."`
}

func (c configExampleCmd) Run() error {
	serviceFile, definitions := config.Example()
	if c.Definitions {
		serviceFile = definitions
	}
	_, err := fmt.Print(serviceFile)
	return err
}

type configSchemaCmd struct {
	Definitions bool `help:"Print the schema of the definitions file instead of the service file's."`
}

func (c configSchemaCmd) Run() error {
	schema := config.Schema
	if c.Definitions {
		schema = config.DefinitionsSchema
	}
	b, err := schema()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(b)
	return err
}
