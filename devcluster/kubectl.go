package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
)

// serveKubectl runs the kubectl commands of standard input, one after the other, and writes what they print and their exit codes to standard
// output, until standard input ends. Both are JSON; internal/devcluster has the same types.
//
// A process takes much longer to begin than most commands take: with it, tests that wait for an object use their time to ask for it.
func serveKubectl() error {
	requests, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	kubectlutil.BehaviorOnFatal(func(text string, code int) { panic(ended{text, code}) })
	for {
		var r struct {
			Args  []string `json:"args"`
			Stdin []byte   `json:"stdin"`
		}
		if err := requests.Decode(&r); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		var a struct {
			Stdout []byte `json:"stdout"`
			Stderr []byte `json:"stderr"`
			Code   int    `json:"code"`
		}
		var err error
		if a.Stdout, a.Stderr, a.Code, err = runKubectl(r.Stdin, r.Args); err != nil {
			return err
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
	}
}

// ended is the panic that ends a command which would end its process.
type ended struct {
	text string
	code int
}

// runKubectl runs one command. The standard files of the process are the command's meanwhile, since code of kubectl uses them directly.
func runKubectl(stdin []byte, args []string) (stdout, stderr []byte, code int, err error) {
	out, err := capture(&os.Stdout)
	if err != nil {
		return nil, nil, 0, err
	}
	errs, err := capture(&os.Stderr)
	if err != nil {
		return nil, nil, 0, err
	}
	in, feed, err := os.Pipe()
	if err != nil {
		return nil, nil, 0, err
	}
	before := os.Stdin
	os.Stdin = in
	defer func() { os.Stdin = before; in.Close() }() // which ends the writer of a command that did not read everything
	go func() { _, _ = feed.Write(stdin); feed.Close() }()
	code = func() (code int) {
		defer func() {
			switch e := recover().(type) {
			case nil:
			case ended:
				if e.text != "" {
					fmt.Fprintln(os.Stderr, strings.TrimSuffix(e.text, "\n"))
				}
				code = e.code
			default:
				panic(e)
			}
		}()
		cmd := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
			Arguments:   append([]string{"kubectl"}, args...),
			ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50),
			IOStreams:   genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		})
		cmd.SetArgs(args)
		if err := cli.RunNoErrOutput(cmd); err != nil {
			kubectlutil.CheckErr(err)
		}
		return 0
	}()
	return out(), errs(), code, nil
}

// capture replaces a file of the process. The returned function restores it and returns what was written meanwhile.
func capture(file **os.File) (restore func() []byte, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	before := *file
	*file = w
	var text bytes.Buffer
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(&text, r) })
	return func() []byte {
		*file = before
		w.Close()
		wg.Wait()
		r.Close()
		return text.Bytes()
	}, nil
}
