import { describe, expect, it } from '@jest/globals'
import { prometheusMetrics } from '../../../servers/observability/metrics.js'

describe('prometheusMetrics', () => {
  const linesOf = async (metrics: ReturnType<typeof prometheusMetrics>): Promise<string[]> =>
    (await metrics.read()).text.split('\n').filter((line) => line.startsWith('did_auth_'))

  it('reads a gauge of several servers each time', async () => {
    const metrics = prometheusMetrics()
    let open = 3
    metrics.watch('did_auth_pins_open', () => [{ labels: { server: 'relay' }, value: open }])
    metrics.watch('did_auth_pins_open', () => Promise.resolve([{ labels: { server: 'vault' }, value: 1 }]))
    expect(await linesOf(metrics)).toEqual([
      'did_auth_pins_open{server="relay"} 3',
      'did_auth_pins_open{server="vault"} 1'
    ])
    open = 0
    expect(await linesOf(metrics)).toContain('did_auth_pins_open{server="relay"} 0')
  })

  it('leaves out a gauge that cannot be read', async () => {
    const metrics = prometheusMetrics()
    metrics.watch('did_auth_pins_open', () => Promise.reject(new Error('away')))
    expect(await linesOf(metrics)).toEqual([])
  })

  it('tells when a task last succeeded', async () => {
    const metrics = prometheusMetrics()
    metrics.succeeded('vault', 'collector')
    const [line = ''] = await linesOf(metrics)
    expect(line).toMatch(/^did_auth_task_success_timestamp_seconds\{server="vault",task="collector"\} \d{10}$/)
  })
})
