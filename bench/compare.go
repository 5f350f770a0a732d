package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ephor.invalid/ephor/bench/load"
)

// compare measures what evaluates the 18 policies, one after the other on this machine, and the command lines in turns; what is not named with
// PEER is left out. It writes the figures into the README and the page of the comparison. The arguments are the peers' programs, or names of evaluators, which
// are then the only ones.
func (b *bench) compare(args []string) error {
	var only, paths []string
	for _, arg := range args {
		if slices.ContainsFunc(evaluators, func(e evaluator) bool { return e.name == arg }) {
			only = append(only, arg)
		} else {
			paths = append(paths, arg)
		}
	}
	if err := b.namePeers(paths); err != nil {
		return err
	}
	got, err := b.compareEvaluators(only)
	if err != nil {
		return err
	}
	if len(only) > 0 {
		return nil // parts of a comparison are not one run
	}
	if err := b.compareCommands(); err != nil {
		return err
	}
	return errors.Join(b.writeEvaluators(got), b.writeFigures())
}

// compareCommands times the same work of the command lines, in turns: 18 policies and 1,000 Pods, and the start.
func (b *bench) compareCommands() error {
	pods, _, err := b.writeManifests()
	if err != nil {
		return err
	}
	folder := func(name string) string { return filepath.Join(b.root, "examples", name) }
	type command struct {
		who, path string
		args      []string
	}
	applied := []command{
		{"Ephor", b.ephor, []string{"apply", folder(classicPolicies), "--resource", pods}},
		{"Ephor, in CEL", b.ephor, []string{"apply", folder(celPolicies), "--resource", pods}},
	}
	begun := []command{{"Ephor", b.ephor, []string{"version"}}}
	public, err := b.conformanceFolder()
	if err != nil {
		return err
	}
	var tested []command
	if public != "" {
		public = filepath.Join(public, "policies", "pod-security")
		tested = append(tested, command{"Ephor", b.ephor, []string{"test", public}})
	}
	if path := b.peers[kyvernoProgram]; path != "" {
		applied = append(applied,
			command{"Kyverno 1.19.1", path, []string{"apply", folder(classicPolicies), "--resource", pods}},
			command{"Kyverno 1.19.1, in CEL", path, []string{"apply", folder(celPolicies), "--resource", pods}})
		begun = append(begun, command{"Kyverno 1.19.1", path, []string{"version"}})
		if public != "" {
			tested = append(tested, command{"Kyverno 1.19.1", path, []string{"test", public}})
		}
	}
	if path := b.peers[gatorProgram]; path != "" {
		for _, in := range []struct {
			who  string
			code func(object) (object, error)
		}{{"gator 3.23.0, in Rego", regoTemplate}, {"gator 3.23.0, in CEL", celTemplate}} {
			templates, constraints, err := gatekeeperTemplates(b.root, in.code)
			if err != nil {
				return err
			}
			all := slices.Concat(templates, constraints)
			text, err := documents(len(all), func(i int) object { return all[i] })
			if err != nil {
				return err
			}
			file := filepath.Join(b.dir, strings.ReplaceAll(in.who, " ", "-")+".yaml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				return err
			}
			applied = append(applied, command{in.who, path, []string{"test", "-f", file, "-f", pods}})
		}
		begun = append(begun, command{"gator 3.23.0", path, []string{"--version"}})
	}
	binary, err := os.Stat(b.ephor)
	if err != nil {
		return err
	}
	b.figure("binary", fmt.Sprintf("%.0f MB, stripped, everything in one", float64(binary.Size())/1e6))
	for _, work := range []struct {
		key, name string
		commands  []command
		times     int
	}{{"apply", "apply", applied, repeats}, {"start", "version", begun, repeats}, {"test", "test", tested, 1}} {
		if len(work.commands) == 0 {
			continue
		}
		runs := make([]run, len(work.commands))
		walls := make([][]time.Duration, len(work.commands))
		for range work.times {
			for i, c := range work.commands {
				if runs[i].ended {
					continue
				}
				r, err := measure(c.path, c.args...)
				if err != nil {
					return err
				}
				walls[i] = append(walls[i], r.wall)
				runs[i].peakMB, runs[i].ended = max(runs[i].peakMB, r.peakMB), r.ended
			}
		}
		var own, peers []string
		for i, c := range work.commands {
			runs[i].wall = load.Median(walls[i])
			text := fmt.Sprintf("%.2f s, %.0f MB", runs[i].wall.Seconds(), runs[i].peakMB)
			if runs[i].wall < 100*time.Millisecond {
				text = fmt.Sprintf("%.0f ms, %.0f MB", ms(runs[i].wall), runs[i].peakMB)
			}
			fmt.Printf("%-8s %-24s %s, %.1f times as long as Ephor\n", work.name, c.who, text, float64(runs[i].wall)/float64(runs[0].wall))
			if runs[i].ended {
				text = fmt.Sprintf("not ended after %.0f s, %.0f MB", commandLimit.Seconds(), runs[i].peakMB)
			}
			if c.path != b.ephor {
				peers = append(peers, c.who+": "+text)
			} else {
				own = append(own, text)
			}
			if c.who == "Kyverno 1.19.1" && work.key == "apply" {
				b.shortFigure(work.key, text, own[0])
			}
		}
		b.figure(work.key, strings.Join(own, "; in CEL: "))
		if len(peers) > 0 {
			b.peerFigure(work.key, strings.Join(peers, "; "))
		}
	}
	return nil
}
