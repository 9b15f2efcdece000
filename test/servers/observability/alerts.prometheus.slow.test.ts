import { expect, it } from '@jest/globals'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../../support/fixtures/documents.js'

const RULES = join(root, 'servers/monitoring/alerts.yaml')

/** Series of a minute interval, and the time at which an alert is firing for a server, or is not. */
const CASES = [
  {
    series: { 'did_auth_ready{server="auth"}': '1 0x9' },
    alert: 'DidAuthNotReady',
    quietAt: '2m',
    firesAt: '4m',
    labels: { server: 'auth', severity: 'critical' },
    summary: 'auth of  is not ready'
  },
  {
    // A series that starts at 0 shows the first event.
    series: { 'did_auth_security_events_total{server="vault",type="refresh-token-reused"}': '0x9 1x90' },
    alert: 'DidAuthRefreshTheft',
    quietAt: '5m',
    firesAt: '12m',
    labels: { server: 'vault', type: 'refresh-token-reused', severity: 'warning' },
    summary: 'vault revoked a session whose refresh token was used twice'
  },
  {
    series: {
      'did_auth_logins_total{server="auth",method="challenge",outcome="accepted"}': '0+10x90',
      'did_auth_logins_total{server="auth",method="challenge",outcome="refused"}': '0x20 30+30x70'
    },
    alert: 'DidAuthLoginsRefused',
    quietAt: '20m',
    firesAt: '60m',
    labels: { server: 'auth', severity: 'warning' },
    summary: 'auth refuses 75% of the logins'
  },
  {
    series: {
      'did_auth_stored_bytes{server="relay"}': '80+1x90',
      'did_auth_stored_bytes_limit{server="relay"}': '100x90'
    },
    alert: 'DidAuthStorageNearBound',
    quietAt: '20m',
    firesAt: '40m',
    labels: { server: 'relay', severity: 'warning' },
    summary: 'relay uses 120% of its bound'
  }
]

it('accepts the rules', () =>
  expect(execFileSync('promtool', ['check', 'rules', RULES]).toString()).toContain('SUCCESS'))

it.each(CASES)(
  'fires $alert when it should, and not before',
  ({ series, alert, quietAt, firesAt, labels, summary }) => {
    const input_series = Object.entries(series).map(([name, values]) => ({ series: name, values }))
    const expected = { exp_labels: labels, exp_annotations: { summary } }
    const alert_rule_test = [
      { eval_time: quietAt, alertname: alert, exp_alerts: [] },
      { eval_time: firesAt, alertname: alert, exp_alerts: [expected] }
    ]
    const file = join(mkdtempSync(join(tmpdir(), 'did-auth-alerts-')), 'test.yaml')
    // Each JSON text is YAML.
    const tests = {
      rule_files: [RULES],
      evaluation_interval: '1m',
      tests: [{ interval: '1m', input_series, alert_rule_test }]
    }
    writeFileSync(file, JSON.stringify(tests))
    expect(execFileSync('promtool', ['test', 'rules', file]).toString()).toContain('SUCCESS')
  }
)
