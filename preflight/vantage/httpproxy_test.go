package vantage

import "testing"

// TestWhichProxyTheEnvironmentNames: by the rules that other HTTP clients have, and never with its login.
func TestWhichProxyTheEnvironmentNames(t *testing.T) {
	type env = map[string]string
	for what, c := range map[string]struct {
		env     env
		secure  bool
		address string
		want    string
	}{
		"none": {env{}, true, "api.test:443", ""},
		"for https": {env{"HTTPS_PROXY": "http://proxy.test:3128"}, true, "api.test:443",
			"HTTPS_PROXY (proxy.test:3128)"},
		"in small letters": {env{"https_proxy": "proxy.test:3128"}, true, "api.test:443",
			"https_proxy (proxy.test:3128)"},
		"with a login": {env{"HTTPS_PROXY": "http://u:canary@proxy.test:1"}, true, "api.test:443",
			"HTTPS_PROXY (proxy.test:1)"},
		"a login that is no URL": {env{"HTTPS_PROXY": "http://u:%zzcanary@proxy.test:1"}, true, "api.test:443",
			""},
		"for all": {env{"ALL_PROXY": "socks5://proxy.test:1080"}, true, "api.test:443",
			"ALL_PROXY (proxy.test:1080)"},
		"for http alone": {env{"HTTP_PROXY": "http://proxy.test:3128"}, true, "api.test:443", ""},
		"for http": {env{"HTTP_PROXY": "http://proxy.test:3128"}, false, "api.test:80",
			"HTTP_PROXY (proxy.test:3128)"},
		"not for this domain": {env{"HTTPS_PROXY": "proxy.test:1", "NO_PROXY": ".test"}, true, "api.test:443", ""},
		"not for this name": {env{"HTTPS_PROXY": "proxy.test:1", "no_proxy": "x.test, api.test"}, true,
			"api.test:443", ""},
		"not for this network": {env{"HTTPS_PROXY": "proxy.test:1", "NO_PROXY": "10.0.0.0/8"}, true,
			"10.1.1.1:443", ""},
		"for another port's name": {env{"HTTPS_PROXY": "proxy.test:1", "NO_PROXY": "api.test:8443"}, true,
			"api.test:443", "HTTPS_PROXY (proxy.test:1)"},
		"for nobody":           {env{"HTTPS_PROXY": "proxy.test:1", "NO_PROXY": "*"}, true, "api.test:443", ""},
		"not for this machine": {env{"HTTPS_PROXY": "proxy.test:1"}, true, "127.0.0.1:443", ""},
		"nor for its name":     {env{"HTTPS_PROXY": "proxy.test:1"}, true, "localhost:443", ""},
	} {
		got := httpProxyOf(func(name string) string { return c.env[name] })(c.secure, c.address)
		if got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}
