package config

import (
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/telemetry"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Config applies the main ConfigMap.
type Config struct {
	Name      string
	Settings  *settings.Store
	Policies  *intake.Policies
	Telemetry *telemetry.Telemetry
	// Reports: mistakes are logged. One process reports them for all.
	Reports bool
	// Unlocked and Conditions belong to a process with webhooks; nil without.
	Unlocked   *serving.Unlocked
	Conditions *webhookconf.Conditions
	// Changed is called after each change; nil for nothing.
	Changed func()
}

// Watch follows the ConfigMap.
func (c *Config) Watch() intake.Watch {
	return intake.Watch{Object: &corev1.ConfigMap{}, Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.load,
		UpdateFunc: func(_, obj any) { c.load(obj) },
		DeleteFunc: func(any) { c.apply(nil, nil) },
	}}
}

func (c *Config) load(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != c.Name {
		return
	}
	s, diags := settings.Parse(cm.Data)
	for _, d := range diags {
		c.mistake("path", d.Path, "mistake", d.Summary, "hint", d.Hint)
	}
	if c.Conditions != nil {
		usable, mistakes := webhookconf.CheckConditions(s.Webhook.MatchConditions, c.Conditions)
		for _, err := range mistakes {
			c.mistake("path", "data.matchConditions", "mistake", err)
		}
		s.Webhook.MatchConditions = usable // the settings are not shared yet
	}
	c.apply(cm, s)
	c.Telemetry.Configured()
}

func (c *Config) mistake(what ...any) {
	if c.Reports {
		c.Telemetry.Log.Warn("ConfigMap has a mistake", append([]any{"configMap", c.Name}, what...)...)
	}
}

// apply applies the settings; nil after the deletion of the ConfigMap.
func (c *Config) apply(cm *corev1.ConfigMap, s *settings.Settings) {
	if c.Unlocked != nil {
		c.Unlocked.Load(cm)
	}
	c.Settings.Set(s)
	if s == nil {
		c.Policies.AuditFirst(nil)
	} else {
		c.Policies.AuditFirst(s.AuditFirst)
	}
	if c.Changed != nil {
		c.Changed()
	}
}
