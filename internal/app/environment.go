package app

import (
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// env is what a process learns from its environment (control plane reference §1.6).
type env struct {
	namespace, service, configMap, podName string
}

// environment reads the variables; one that is not set, or empty, has Kyverno's default.
func environment(lookup func(string) (string, bool)) env {
	get := func(name, otherwise string) string {
		if v, ok := lookup(name); ok && v != "" {
			return v
		}
		return otherwise
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "kyverno"
	}
	return env{
		namespace: get("KYVERNO_NAMESPACE", "kyverno"),
		service:   get("KYVERNO_SVC", "kyverno-svc"),
		configMap: get("INIT_CONFIG", "kyverno"),
		podName:   get("KYVERNO_POD_NAME", host),
	}
}

// newLogger returns the process's logger and makes the libraries use it.
func newLogger(format string, verbosity int) *slog.Logger {
	level := slog.LevelInfo
	if verbosity >= 4 {
		level = slog.LevelDebug
	}
	o := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewTextHandler(os.Stderr, o)
	if format == "json" {
		h = slog.NewJSONHandler(os.Stderr, o)
	}
	ctrllog.SetLogger(logr.FromSlogHandler(h))
	klog.SetSlogLogger(slog.New(h))
	return slog.New(h)
}
