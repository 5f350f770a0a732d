package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ephor.invalid/ephor/internal/app"
	"ephor.invalid/ephor/internal/settings"
)

// configuration writes the page of the ConfigMap and the environment.
func configuration(p *page) error {
	p.title("The main ConfigMap and the environment", "The environment variable `INIT_CONFIG` names the ConfigMap (default `kyverno`), in the namespace of the process. "+
		"Changes take effect from the next request on, without a restart. Without the ConfigMap the defaults apply. "+
		"A key with an invalid value keeps its default, and the log reports it.\n\n"+
		"The flags of the processes are on [their own page](flags.md).")
	p.line("| Key | Form | Default | What it does |\n|---|---|---|---|")
	for _, k := range settings.Keys() {
		p.line("| `%s` | %s | %s | %s |", k.Name, cell(k.Form), cell(k.Default), cell(k.Doc))
	}
	p.line("\nA request is excluded when an item of an exclude list matches its user, unless an item that begins with `!` matches, too. The roles\nof a user are looked up only when a list or a policy needs them.\n")
	p.line("## Environment\n\n| Variable | Default | Meaning |\n|---|---|---|")
	for _, v := range app.Variables() {
		p.line("| `%s` | %s | %s |", v.Name, cell(v.Default), cell(v.Doc))
	}
	return nil
}

// flags writes the page of the flags of all processes.
func flags(p *page) error {
	p.title("Flags of the controllers", "The names are Kyverno's where Kyverno has the flag. Kyverno flags that have no effect here are accepted, and one line of the log lists them; "+
		"any other unknown flag is an error that suggests similar names.")
	for _, cmd := range app.NewControllerCommand("").Commands() {
		p.line("## %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
		var known []string
		rows(p, cmd, func(f *pflag.Flag) bool {
			if f.Hidden {
				known = append(known, "`--"+f.Name+"`")
			}
			return !f.Hidden
		})
		if len(known) > 0 {
			p.line("\nAccepted without effect: %s.\n", strings.Join(known, ", "))
		}
	}
	return nil
}

// rows writes the flags of a command that show selects.
func rows(p *page, cmd *cobra.Command, show func(*pflag.Flag) bool) {
	p.line("| Flag | Default | What it does |\n|---|---|---|")
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || !show(f) {
			return
		}
		value := f.DefValue
		if value == "" || value == "[]" {
			value = "–"
		} else {
			value = codeCell(value)
		}
		p.line("| `--%s` | %s | %s |", f.Name, value, cell(sentence(f.Usage)))
	})
}

// sentence writes a usage text as a sentence.
func sentence(s string) string {
	return fmt.Sprint(strings.ToUpper(s[:1]), s[1:], ".")
}
