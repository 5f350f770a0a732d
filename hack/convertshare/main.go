// Command convertshare prints the share of the rules of classic policies that `ephor convert` converts, for each collection, and how often
// each reason prevents it.
//
//	go run ./hack/convertshare ../shared/conformance/policies/*
//
// Each argument is a collection: a folder or a file. A rule counts if it is converted, the proof finds no difference, and no line names a loss, except
// those that the flag -allowed matches.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/cli"
	"ephor.invalid/ephor/internal/convert"
	"ephor.invalid/ephor/internal/source"
)

var (
	samples = flag.Int("samples", 60, "number of resources for each rule")
	rules   = flag.Bool("rules", false, "also print each rule that does not count, with its reasons")
	allowed = flag.String("allowed", `Pod Security|version latest`, "losses that do not count")
)

var (
	noWay    = regexp.MustCompile(`^\S+:\d+: (.*?) cannot be converted: (.*)$`)
	loss     = regexp.MustCompile(`^\S+:\d+: ((?:ClusterPolicy|Policy|CleanupPolicy|ClusterCleanupPolicy) [^:]*?): (.*)$`)
	compared = regexp.MustCompile(`^(.*): \d+ resources? compared, \d+ of them matched, .*, (\d+) different$`)
	unproved = regexp.MustCompile(`^(.*): (nothing was proved.*|the CEL policy is not asked about.*)$`)
	quoted   = regexp.MustCompile(`\{\{.*\}\}|"[^"]*"|'[^']*'|\b[\w.-]+\(\)`)
)

// outcome is what happened to one rule.
type outcome struct {
	converted, different, unproved bool
	reasons, losses                []string
}

func main() {
	flag.Parse()
	skip := regexp.MustCompile(*allowed)
	reasons := map[string]int{}
	var sum, made, whole int
	for _, collection := range flag.Args() {
		all, converted, counted := 0, 0, 0
		for file, found := range run(files(collection)) {
			for _, rule := range slices.Sorted(maps.Keys(found)) {
				o := found[rule]
				o.losses = slices.DeleteFunc(o.losses, skip.MatchString)
				all++
				why := slices.Clone(o.reasons)
				if o.converted {
					converted++
					for _, l := range o.losses {
						why = append(why, "loss: "+l)
					}
					if o.different {
						why = append(why, "the proof finds a difference")
					}
					if o.unproved {
						why = append(why, "the proof lacks something")
					}
				}
				if len(why) == 0 {
					counted++
				}
				kinds := map[string]bool{}
				for _, w := range why {
					kinds[quoted.ReplaceAllString(w, "…")] = true
				}
				for k := range kinds {
					reasons[k]++
				}
				if *rules && len(why) > 0 {
					fmt.Printf("%s: %s\n\t%s\n", file, rule, strings.Join(why, "\n\t"))
				}
			}
		}
		if all == 0 {
			continue
		}
		sum, made, whole = sum+all, made+converted, whole+counted
		fmt.Printf("%-32s %4d rules, %3d%% converted, %3d%% without a difference\n", filepath.Base(collection), all, 100*converted/all, 100*counted/all)
	}
	if sum == 0 {
		return
	}
	fmt.Printf("%-32s %4d rules, %d (%.1f%%) converted, %d (%.1f%%) without a difference\n", "all", sum, made, 100*float64(made)/float64(sum), whole, 100*float64(whole)/float64(sum))
	for _, r := range slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	}) {
		fmt.Printf("%4d %s\n", reasons[r], r)
	}
}

// files returns the files of a collection that hold a classic policy, except the files of tests.
func files(root string) (out []string) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case !d.IsDir() && (filepath.Ext(path) == ".yaml" || filepath.Ext(path) == ".yml") && isClassic(path):
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return out
}

func isClassic(path string) bool {
	objects, _ := source.Load([]string{path}, source.Options{})
	return slices.ContainsFunc(objects, func(o source.Object) bool {
		apiVersion, _ := o.Value["apiVersion"].(string)
		return convert.Owns(apiVersion, o.Kind())
	})
}

// run converts files, two at a time.
func run(files []string) map[string]map[string]*outcome {
	out := map[string]map[string]*outcome{}
	var lock sync.Mutex
	var running sync.WaitGroup
	queue := make(chan string)
	for range 2 {
		running.Add(1)
		go func() {
			defer running.Done()
			for file := range queue {
				found := one(file)
				lock.Lock()
				out[file] = found
				lock.Unlock()
			}
		}()
	}
	for _, f := range files {
		queue <- f
	}
	close(queue)
	running.Wait()
	return out
}

// one converts a file.
func one(file string) map[string]*outcome {
	var report bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&bytes.Buffer{})
	root.SetErr(&report)
	root.SetIn(strings.NewReader(""))
	cli.Main([]string{"ephor", "convert", file, "--prove", "--samples", fmt.Sprint(*samples)}, root)
	out := map[string]*outcome{}
	of := func(rule string) *outcome {
		if out[rule] == nil {
			out[rule] = &outcome{}
		}
		return out[rule]
	}
	for line := range strings.Lines(report.String()) {
		line = strings.TrimSuffix(line, "\n")
		if m := noWay.FindStringSubmatch(line); m != nil {
			of(m[1]).reasons = append(of(m[1]).reasons, m[2])
		} else if m := compared.FindStringSubmatch(line); m != nil {
			of(m[1]).converted, of(m[1]).different = true, m[2] != "0"
		} else if m := unproved.FindStringSubmatch(line); m != nil {
			of(m[1]).unproved = true
		} else if m := loss.FindStringSubmatch(line); m != nil {
			of(m[1]).losses = append(of(m[1]).losses, m[2])
		}
	}
	return out
}
