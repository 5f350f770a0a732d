package pss

import corev1 "k8s.io/api/core/v1"

var probeHosts = &control{
	ids: []string{"hostProbesAndHostLifecycle"}, level: LevelBaseline,
	doc:      "Since v1.34 probes and lifecycle handlers must not name a host; this control cannot be excluded.",
	examples: []string{"spec.containers[*].livenessProbe.httpGet.host", "spec.containers[*].lifecycle.preStop.tcpSocket.host"},
	locate: func(_ string, f *finder) {
		f.each(func(c *container) {
			f.probe(c.containerRef, "livenessProbe", c.LivenessProbe)
			f.probe(c.containerRef, "readinessProbe", c.ReadinessProbe)
			f.probe(c.containerRef, "startupProbe", c.StartupProbe)
			if l := c.Lifecycle; l != nil {
				f.handler(c.containerRef, "lifecycle.postStart", l.PostStart)
				f.handler(c.containerRef, "lifecycle.preStop", l.PreStop)
			}
		})
	},
}

func (f *finder) probe(at containerRef, field string, p *corev1.Probe) {
	if p != nil {
		f.hosts(at, field, p.HTTPGet, p.TCPSocket)
	}
}

func (f *finder) handler(at containerRef, field string, h *corev1.LifecycleHandler) {
	if h != nil {
		f.hosts(at, field, h.HTTPGet, h.TCPSocket)
	}
}

func (f *finder) hosts(at containerRef, field string, http *corev1.HTTPGetAction, tcp *corev1.TCPSocketAction) {
	if http != nil && http.Host != "" {
		f.forbid(at, field+".httpGet.host", http.Host)
	}
	if tcp != nil && tcp.Host != "" {
		f.forbid(at, field+".tcpSocket.host", tcp.Host)
	}
}
