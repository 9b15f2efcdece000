import { transform } from 'esbuild'

// Each Jest process loads this file. A worker frees all of its memory when it ends. Jest reports a leak if that takes
// more than half a second, so workers exit without freeing memory.
if (process.send !== undefined) process.once('exit', () => process.exit())

// Jest requires a default export for transforms. For ES modules it supports async transforms.
export default {
  async processAsync(source, path) {
    const options = { loader: 'ts', format: 'esm', target: 'es2023', sourcemap: 'external', sourcefile: path }
    // Jest reads the map only for a stack trace. In the code, it would double the size of each module.
    const { code, map } = await transform(source, options)
    return { code, map }
  }
}
