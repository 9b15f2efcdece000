import { beforeAll, describe, expect, it } from '@jest/globals'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { errorStatuses } from 'express-did-auth'
import { serverErrors } from '../../../servers/http/server-error.js'
import { readDocument, root, tableUnder } from '../../support/fixtures/documents.js'
import { listReadMetrics, type ReadMetric } from '../../support/fixtures/promql.js'
import { parseScrape, scrapeUnderTraffic, type Series } from '../../support/servers/scrape.js'

const page = readDocument('servers/MONITORING.md')
const alerts = readFileSync(join(root, 'servers/monitoring/alerts.yaml'), 'utf8')
const dashboard = JSON.parse(readFileSync(join(root, 'servers/monitoring/dashboard.json'), 'utf8')) as {
  templating: { list: { name: string; query: string | { query: string } }[] }
  panels: { title: string; targets?: { expr: string; legendFormat: string }[] }[]
}
const targets = dashboard.panels.flatMap((panel) => panel.targets ?? [])
const readCells = (cell = ''): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, text]) => text!)

let text = ''
let series: Series
beforeAll(async () => {
  text = await scrapeUnderTraffic()
  series = parseScrape(text)
})

/** Returns the labels of a metric in the scrape, and those that Prometheus adds. Undefined: there is no such metric. */
function findLabels(name: string): string[] | undefined {
  // Prometheus itself creates this metric for each target.
  if (name === 'up') return ['job', 'instance']
  const labels = series.get(name)?.flatMap((one) => Object.keys(one))
  return labels && [...labels, 'job', 'instance']
}

/** Returns the metrics and labels of an expression that a scrape does not have. */
function findMissing(expression: string): string[] {
  return listReadMetrics(expression).flatMap(({ name, labels }) => {
    const present = findLabels(name)
    return present === undefined
      ? [name]
      : labels.filter((label) => !present.includes(label)).map((label) => `${name} ${label}`)
  })
}

describe('the table of metrics', () =>
  it('has the names and labels of a scrape under traffic', () => {
    const documented = tableUnder(page, 'Metrics').map(([name, labels]) => [readCells(name)[0]!, readCells(labels)])
    const names = [...text.matchAll(/^# TYPE (did_auth_\w+)/gm)].map(([, name]) => name!)
    const scraped = names.map((name) => {
      const own = series.get(name) ?? series.get(`${name}_count`) ?? []
      return [name, [...new Set(own.flatMap((labels) => Object.keys(labels)))]]
    })
    expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(scraped))
  }))

describe('a scrape', () => {
  it('has only error codes of the closed lists, and no text of a client', () => {
    const codes = series.get('did_auth_errors_total')!.map(({ code }) => code!)
    expect(codes.length).toBeGreaterThan(5)
    expect(codes.filter((code) => !(code in errorStatuses) && !(code in serverErrors))).toEqual([])
    expect(text).not.toMatch(/did:|0x/)
  })

  it('counts logins and refreshes by outcome, and each security event', () => {
    expect(text.split('\n')).toEqual(
      expect.arrayContaining([
        'did_auth_logins_total{server="auth",method="challenge",outcome="accepted"} 1',
        'did_auth_logins_total{server="auth",method="challenge",outcome="refused"} 1',
        'did_auth_logins_total{server="auth",method="signup",outcome="refused"} 1',
        'did_auth_logins_total{server="auth",method="siwe",outcome="refused"} 1',
        'did_auth_logins_total{server="auth",method="machine",outcome="refused"} 1',
        'did_auth_logins_total{server="relay",method="challenge",outcome="accepted"} 1',
        'did_auth_refreshes_total{server="auth",outcome="accepted"} 1',
        'did_auth_refreshes_total{server="auth",outcome="refused"} 1',
        'did_auth_security_events_total{server="auth",type="login"} 1',
        'did_auth_security_events_total{server="auth",type="refresh-token-reused"} 0',
        'did_auth_errors_total{server="auth",route="/me",code="ERR_ACCESS_TOKEN_MISSING"} 1',
        'did_auth_ready{server="vault"} 1',
        'did_auth_dependency_up{server="vault",dependency="ipfs"} 1',
        'did_auth_disk_used_ratio{server="vault"} 0.5',
        'did_auth_stored_bytes_limit{server="vault"} 1000000000'
      ])
    )
    expect(text).not.toContain('did_auth_dependency_up{server="auth",dependency="ipfs"}')
  })
})

describe('alerts.yaml', () => {
  const expressions = [...alerts.matchAll(/^ +expr: (.+)$/gm)].map(([, expression]) => expression!)

  it('reads only metrics and labels that exist', () => {
    expect(expressions.length).toBeGreaterThan(10)
    expect(expressions.flatMap(findMissing)).toEqual([])
  })

  it('names labels in its texts that the metric of the alert has', () => {
    const rules = alerts.split(/^ +- alert: /m).slice(1)
    const missing = rules.flatMap((rule) => {
      const [{ name }] = listReadMetrics(/expr: (.+)/.exec(rule)![1]!) as [ReadMetric]
      const used = [...rule.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label!)
      return used.filter((label) => !findLabels(name)?.includes(label))
    })
    expect(missing).toEqual([])
  })

  it('has the alerts of the page, in its order', () => {
    const names = [...alerts.matchAll(/^ +- alert: (\w+)$/gm)].map(([, name]) => name)
    expect(tableUnder(page, 'Alerts').map(([name]) => readCells(name)[0])).toEqual(names)
  })
})

describe('dashboard.json', () => {
  const replaceVariables = (text: string): string =>
    text.replaceAll('$__rate_interval', '5m').replaceAll(/\$(server|job)/g, '.*')

  it('reads only metrics and labels that exist', () => {
    expect(targets.length).toBeGreaterThan(15)
    expect(targets.flatMap(({ expr }) => findMissing(replaceVariables(expr)))).toEqual([])
  })

  it('names labels in its legends that the metrics have', () => {
    const missing = targets.flatMap(({ expr, legendFormat }) => {
      const [{ name, labels }] = listReadMetrics(expr) as [ReadMetric]
      const present = expr.includes(' by (') ? labels : findLabels(name)
      return [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].flatMap(([, label]) =>
        present?.includes(label!) ? [] : [label]
      )
    })
    expect(missing).toEqual([])
  })

  it('chooses its data source and servers by variables whose metrics exist', () => {
    const [source, ...others] = dashboard.templating.list
    expect([source?.name, others.map(({ name }) => name)]).toEqual(['datasource', ['job', 'server']])
    for (const { query } of others) {
      const [, name = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec((query as { query: string }).query)!
      expect(findLabels(name)).toContain(label)
    }
  })

  it('shows each metric of the page', () => {
    const shown = targets.map(({ expr }) => expr).join('\n')
    const names = tableUnder(page, 'Metrics').map(([name]) => readCells(name)[0]!)
    expect(names.filter((name) => !shown.includes(name))).toEqual([])
  })
})

describe('listReadMetrics', () =>
  it('finds metrics, their labels and the labels of groups', () =>
    expect(listReadMetrics('sum by (x, le) (rate(a_total{b="by (q)",c!~"d"}[5m])) / on (y) b1 > 0.5 and c')).toEqual([
      { name: 'a_total', labels: ['b', 'c', 'x', 'le', 'y'] },
      { name: 'b1', labels: ['x', 'le', 'y'] },
      { name: 'c', labels: ['x', 'le', 'y'] }
    ])))
