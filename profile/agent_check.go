package profile

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
)

// agentProblems reports invalid settings of the agent.
func agentProblems(a Agent, add func(key string, err error)) {
	if a.Absent() && a.describes() {
		add("agent.present", errors.New("agent.present is false, so agent has no other key: remove one or the other"))
	}
	for key, s := range map[string]Setting{"api_url": a.API, "terminal_url": a.Terminal, "node_id": a.NodeID} {
		add("agent."+key, s.check(key != "node_id"))
	}
	ways := 0
	for _, set := range []bool{a.Unit != "" && a.Unit != Absent, a.Container != Container{}, a.Process != ""} {
		if set {
			ways++
		}
	}
	if ways > 1 {
		add("agent", errors.New("give one of unit, container and process"))
	}
	if a.Container != (Container{}) {
		add("agent.container", checkContainer(a.Container))
	}
	if a.Process != "" && !plainWord().MatchString(a.Process) {
		add("agent.process", fmt.Errorf("%q is not the name of a process", a.Process))
	}
	if a.PEM != "" && (a.Cert != "" || a.Key != "") {
		add("agent.pem", errors.New("give pem, which has certificate and key, or cert and key"))
	}
	if (a.Cert == "") != (a.Key == "") {
		add("agent", errors.New("give both cert and key, or neither"))
	}
	for key, file := range map[string]string{"cert": a.Cert, "key": a.Key, "pem": a.PEM, "ca_bundle": a.CABundle,
		"log.file": a.Log.File, "container.socket": a.Container.Socket} {
		add("agent."+key, checkNodeFile(file, key == "ca_bundle"))
	}
	if a.Log.File != "" && a.Log.Unit != "" {
		add("agent.log", errors.New("give unit or file, not both"))
	}
}

// plainWord matches names of processes and containers.
var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][\w.+-]{0,127}$`) })

func checkContainer(c Container) error {
	if !plainWord().MatchString(c.Name) {
		return fmt.Errorf("%q is not the name of a container", c.Name)
	}
	return nil
}

// checkNodeFile accepts an absolute path of a file on a node that is in PEM.
func checkNodeFile(file string, system bool) error {
	switch ext := strings.ToLower(path.Ext(file)); {
	case file == "", file == Absent, system && file == SystemCAs:
		return nil
	case ext == ".p12" || ext == ".pfx":
		return fmt.Errorf("%s is PKCS#12, which is not read here: give the certificate and the key in PEM", file)
	case !path.IsAbs(file):
		return fmt.Errorf("want an absolute path on the node, not %q", file)
	}
	return checkPlain(file)
}

var (
	envName    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_]\w*$`) })
	settingKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[\w-]+(\.[\w-]+)*$`) })
	secretName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)token|secret|passw|credential|cookie|(^|[._-])key$|private`)
	})
	settingFile = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[\w./@:+-]+$`) })
)

// check accepts one way to know a value that is no secret.
func (s Setting) check(url bool) error {
	switch {
	case s == Setting{}:
		return nil
	case s.Env != "" && s == Setting{Env: s.Env}:
		if !envName().MatchString(s.Env) || secretName().MatchString(s.Env) {
			return fmt.Errorf("%q is not the name of a variable that holds no secret", s.Env)
		}
		return nil
	case s.File != "" && s == Setting{File: s.File, Key: s.Key}:
		if !settingFile().MatchString(s.File) {
			return fmt.Errorf("want an absolute path on the node, not %q", s.File)
		}
		if !settingKey().MatchString(s.Key) || secretName().MatchString(s.Key) {
			return fmt.Errorf("key %q: want names and indices of a value that is no secret, joined by dots", s.Key)
		}
		return nil
	case s.Literal != "" && s == Setting{Literal: s.Literal}:
		if url && s.Literal != Absent {
			return checkURL(s.Literal)
		}
		return CheckID(s.Literal)
	}
	return errors.New("give one of {env: NAME}, {file: PATH, key: dotted.path} and {literal: VALUE}")
}
