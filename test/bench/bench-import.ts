import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { median } from './median.js'

const MEASURE = `const { performance: p } = require('node:perf_hooks'); const startedAt = p.now()
import('express-did-auth').then(() => console.log(p.now() - startedAt))`

interface Package {
  dependencies?: Record<string, string>
}

/** P8: how long the import of the package takes, and how many packages its users install, Express not counted. */
export function measureImport(): void {
  const milliseconds = Array.from({ length: 9 }, () =>
    Number(execFileSync(process.execPath, ['-e', MEASURE], { encoding: 'utf8' }))
  )
  console.log(`P8 import of the package, median of 9: ${median(milliseconds).toFixed(0)} ms (goal <= 150 ms)`)
  console.log(`P8 packages that a library user installs: ${installedPackages().size + 1} (goal <= 30)`)
}

/** The packages that the lock file reaches from our dependencies, as npm nests them. */
function installedPackages(): Set<string> {
  const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, Package> }
  const found = new Set<string>()
  const visit = (from: string): void => {
    for (const name of Object.keys(packages[from]?.dependencies ?? {})) {
      const folders =
        from === ''
          ? ['']
          : from.split(/(?=\/node_modules\/)/).map((_, i, parts) => `${parts.slice(0, i + 1).join('')}/`)
      const path = ['', ...folders]
        .reverse()
        .map((folder) => `${folder}node_modules/${name}`)
        .find((at) => at in packages)
      if (path === undefined || found.has(path)) continue
      found.add(path)
      visit(path)
    }
  }
  visit('')
  return found
}
