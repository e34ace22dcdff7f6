package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mbwrap/mbwrap/catalog"
)

// hookFlags say who is told how a run ended.
type hookFlags struct {
	OnSuccess, OnFailure, OnWarning []string
	MetricsFile                     string
}

func (h *hookFlags) settings() []*setting {
	const what = "run this shell command, or POST to this URL, when the backup "
	return []*setting{
		list(&h.OnSuccess, "on-success", "CMD|URL", what+"is complete; may repeat"),
		list(&h.OnFailure, "on-failure", "CMD|URL", what+"is not; may repeat"),
		list(&h.OnWarning, "on-warning", "CMD|URL", what+"is complete, with warnings; may repeat"),
		text(&h.MetricsFile, "metrics-file", "FILE", "write the result for the textfile collector of Prometheus"),
	}
}

// outcome is what the world is told of a run. Hooks get it as JSON on standard input or as the body of the request, and
// the main parts as environment variables.
type outcome struct {
	Result      string   `json:"result"` // success, warning or failure
	Exit        int      `json:"exit"`
	Server      string   `json:"server"`
	Host        string   `json:"host"`
	ID          string   `json:"id"`
	Message     string   `json:"message"` // the error, or ""
	Warnings    []string `json:"warnings"`
	Started     moment   `json:"started"`
	Finished    moment   `json:"finished"`
	RawBytes    int64    `json:"raw_bytes"`
	StoredBytes int64    `json:"stored_bytes"`
}

// Results of a run.
const (
	resultSuccess = "success"
	resultWarning = "warning"
	resultFailure = "failure"
)

// outcomeOf describes the end of a run; m is nil if there is no backup.
func outcomeOf(err error, m *catalog.Manifest, started, finished time.Time) outcome {
	code, _ := judge(err)
	o := outcome{Result: resultFailure, Exit: code, Started: moment(started), Finished: moment(finished), Warnings: []string{}}
	switch code {
	case exitDone:
		o.Result = resultSuccess
	case exitWarnings:
		o.Result = resultWarning
	}
	if err != nil && o.Result == resultFailure {
		o.Message = err.Error()
	}
	if m != nil {
		o.ID, o.RawBytes, o.StoredBytes = m.ID, m.RawBytes, m.StoredBytes
		o.Warnings = append(o.Warnings, m.Warnings...)
	}
	return o
}

// hookTimeout bounds each hook: a dead alarm must not keep the next backup from starting.
const hookTimeout = 30 * time.Second

// call tells everyone who wants to know. It works also after ctx has ended. What went wrong is returned, one error a
// hook, and changes nothing about the backup.
func (h *hookFlags) call(ctx context.Context, env *Env, o outcome) []error {
	ctx = context.WithoutCancel(ctx)
	var failed []error
	for _, target := range map[string][]string{
		resultSuccess: h.OnSuccess, resultWarning: h.OnWarning, resultFailure: h.OnFailure,
	}[o.Result] {
		if err := callOne(ctx, env, target, o); err != nil {
			failed = append(failed, err)
		}
	}
	if h.MetricsFile != "" {
		if err := writeMetrics(h.MetricsFile, o); err != nil {
			failed = append(failed, fmt.Errorf("write metrics file: %w", err))
		}
	}
	return failed
}

func callOne(ctx context.Context, env *Env, target string, o outcome) error {
	ctx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	scheme, _, found := strings.Cut(target, "://")
	if !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return shell(ctx, env, target, o)
	}
	u, err := url.Parse(target)
	if err != nil {
		return errors.New("call the hook: its URL is not a usable one") // err shows it
	}
	return post(ctx, u, o)
}

// post sends the outcome to a URL. Errors name its host only: such URLs are often secrets.
func post(ctx context.Context, u *url.URL, o outcome) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call the hook at %s: not a usable address", u.Host)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("call the hook at %s: %s", u.Host, withoutURL(err, u))
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // so that the connection ends well; its content says nothing
	if response.StatusCode >= 300 {
		return fmt.Errorf("call the hook at %s: it answered %s", u.Host, response.Status)
	}
	return nil
}

// withoutURL returns what err says, less the address that it was about.
func withoutURL(err error, u *url.URL) string {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	text := strings.ReplaceAll(err.Error(), u.String(), "the URL")
	if uri := u.RequestURI(); uri != "/" {
		text = strings.ReplaceAll(text, uri, "/...")
	}
	return text
}

// maxSaid is how much of what a hook says is kept, its end, in bytes.
const maxSaid = 500

// ending keeps the last bytes that are written to it.
type ending struct{ text []byte }

func (e *ending) Write(p []byte) (int, error) {
	e.text = append(e.text, p[max(0, len(p)-maxSaid):]...)
	e.text = append(e.text[:0], e.text[max(0, len(e.text)-maxSaid):]...)
	return len(p), nil
}

// shell runs a command. What it says is shown only if it fails, and of the command only the first word: the others are
// often secrets. A command that takes too long is killed with all its children.
func shell(ctx context.Context, env *Env, command string, o outcome) error {
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var said ending
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Env = append(withoutSecrets(env.Environ),
		"MBWRAP_RESULT="+o.Result, "MBWRAP_EXIT="+strconv.Itoa(o.Exit), "MBWRAP_ID="+o.ID,
		"MBWRAP_MESSAGE="+o.Message, "MBWRAP_RAW_BYTES="+strconv.FormatInt(o.RawBytes, 10),
		"MBWRAP_STORED_BYTES="+strconv.FormatInt(o.StoredBytes, 10), "MBWRAP_SERVER="+o.Server)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(body), &said, &said
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err = cmd.Run()
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil: // it left something running: its own affair
		return nil
	case ctx.Err() != nil:
		err = errTimeout
	}
	name := program(command)
	if text := strings.TrimSpace(string(said.text)); text != "" {
		return fmt.Errorf("hook %q: %w: it said %q", name, err, text)
	}
	return fmt.Errorf("hook %q: %w", name, err)
}

// program is what a command is called in messages.
func program(command string) string {
	for word := range strings.FieldsSeq(command) {
		if !strings.Contains(word, "=") {
			return word
		}
	}
	return "command"
}

// withoutSecrets leaves out the variables that hold secrets of ours, for all commands or for one.
func withoutSecrets(environ []string) []string {
	var kept []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, "MBWRAP_") || !strings.HasSuffix(name, "_PASSWORD") {
			kept = append(kept, v)
		}
	}
	return kept
}

// writeMetrics replaces the file in one step, as the textfile collector demands. What is said of the last good backup
// survives a failed run.
func writeMetrics(name string, o outcome) error {
	label := `{server="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(o.Server) + `"}`
	previous, _ := os.ReadFile(name) // there is none at first
	var b strings.Builder
	gauge := func(metric, help, value string) {
		if value != "" {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s%s %s\n", metric, help, metric, metric, label, value)
		}
	}
	good := func(metric, help string, value int64) {
		if o.Result == resultFailure {
			gauge(metric, help, metricIn(string(previous), metric+label))
			return
		}
		gauge(metric, help, strconv.FormatInt(value, 10))
	}
	started, finished := time.Time(o.Started), time.Time(o.Finished)
	gauge("mbwrap_last_run_timestamp_seconds", "When the last backup run ended.", strconv.FormatInt(finished.Unix(), 10))
	gauge("mbwrap_last_run_exit_code", "Exit code of the last backup run.", strconv.Itoa(o.Exit))
	gauge("mbwrap_last_run_duration_seconds", "How long the last backup run took.",
		strconv.FormatFloat(finished.Sub(started).Seconds(), 'f', 3, 64))
	good("mbwrap_last_success_timestamp_seconds", "When the last good backup was complete.", finished.Unix())
	good("mbwrap_raw_bytes", "Size of the last good backup before compression.", o.RawBytes)
	good("mbwrap_stored_bytes", "Size of the last good backup as stored.", o.StoredBytes)
	return replaceFile(name, b.String(), 0o644)
}

// replaceFile gives the file new content and a mode in one step.
func replaceFile(name, text string, mode fs.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(name), ".mbwrap-new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name()) // gone already when all went well
	_, err = temp.WriteString(text)
	if cherr := temp.Chmod(mode); err == nil {
		err = cherr
	}
	if cerr := temp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(temp.Name(), name)
}

// metricIn returns the value that a metric has in the text of a file, "" if none.
func metricIn(text, metric string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, metric+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
