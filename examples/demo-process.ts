import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

/** A child process, which stops with the demo. */
export class DemoProcess {
  /** Output of the process so far. */
  output = ''
  readonly #child: ChildProcess
  readonly #ended: Promise<unknown>

  /** @param file - relative to this folder. It runs with the Node options of the demo, so TypeScript needs no build */
  constructor(file: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const path = fileURLToPath(new URL(file, import.meta.url))
    this.#child = spawn(process.execPath, [...process.execArgv, path, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'inherit']
    })
    this.#child.stdout?.on('data', (chunk: Buffer) => (this.output += chunk.toString()))
    this.#ended = once(this.#child, 'exit')
    process.once('exit', () => this.#child.kill())
  }

  /** Waits until the pattern is printed `count` times. Returns the first group of each match. */
  async printed(pattern: RegExp, count: number): Promise<string[]> {
    for (;;) {
      const matches = [...this.output.matchAll(pattern)].map(([, text = '']) => text)
      if (matches.length >= count) return matches
      if (this.#child.exitCode !== null) throw new Error(`a process ended early: ${this.output}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    await this.#ended
  }
}
