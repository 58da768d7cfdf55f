package profile

import (
	"strings"
	"testing"
)

// TestNoSecretOverHTTP: a base that is http:// to another machine is an error with its line or flag where a secret is
// configured, unless the profile allows it.
func TestNoSecretOverHTTP(t *testing.T) {
	const secret = "auth: {token_file: t}\n"
	for host, plain := range map[string]bool{
		"api.test": true, "10.0.0.1:8000": true, "[fd00::5]:80": true, "0.0.0.0": true, "localhost.evil.com": true,
		"127.0.0.1.nip.io": true, "[::ffff:10.0.0.1]": true, "127.0.0.1:8000": false, "127.9.9.9": false, "[::1]:80": false,
		"localhost": false, "LOCALHOST.:80": false, "[::ffff:127.0.0.1]": false,
	} {
		for text, says := range map[string]bool{
			secret + "api_base: http://" + host + "\n":                                        plain,
			secret + "terminal_base: HTTP://" + host + "\n":                                   plain,
			"auth: {edge_cookie_command: [pass]}\nterminal_base: http://" + host + "\n":       plain,
			secret + "api_base: http://" + host + "\napi_resolve_address: 10.0.0.1\n":         true,
			secret + "api_base: http://" + host + "\napi_resolve_address: 127.0.0.1\n":        false,
			secret + "api_base: https://" + host + "\n":                                       false,
			"api_base: http://" + host + "\n":                                                 false,
			secret + "api_base: http://" + host + "\ninsecure_http: true\n":                   false,
			secret + "api_base: http://" + host + "\nterminal_base: http://10.1.1.1\n" + "\n": true,
		} {
			_, _, err := Load(write(t, "p.yaml", text), Sources{})
			if (err != nil) != says || (err != nil && !strings.Contains(err.Error(), "could read the secret of auth.")) {
				t.Errorf("%q: %v, want an error: %v", text, err, says)
			}
			if err != nil && !strings.Contains(err.Error(), "p.yaml:2:") && !strings.Contains(err.Error(), "p.yaml:3:") {
				t.Errorf("%q: no line: %v", text, err)
			}
		}
	}
	for name, c := range map[string]struct {
		text  string
		flags map[string]Flag
		want  string
	}{
		"api": {secret + "api_base: https://a.test\n", map[string]Flag{"api_base": {"--api-base", "http://a.test"}},
			"--api-base: "},
		"token": {"api_base: http://a.test\n", map[string]Flag{"auth.token_file": {"--token-file", "t"}}, "p.yaml:1: "},
		"resolve": {secret + "api_base: http://127.0.0.1\n", map[string]Flag{"api_resolve_address": {"--x", "10.0.0.1"}},
			"p.yaml:2: "},
		"no file": {"", map[string]Flag{"api_base": {"--api-base", "http://a.test"}, "auth.token_file": {"--t", "t"}},
			"--api-base: "},
		"loopback": {secret + "api_base: https://a.test\n",
			map[string]Flag{"api_base": {"--api-base", "http://127.0.0.1:9"}}, ""},
	} {
		path := ""
		if c.text != "" {
			path = write(t, "p.yaml", c.text)
		}
		_, _, err := Load(path, Sources{Flags: c.flags})
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
