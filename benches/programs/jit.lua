-- Bodies under gravity, strings, tables: what traces are made for, and not.
local bodies = {}
for i = 1, 5 do bodies[i] = {x = i, y = i * 0.5, z = -i, vx = 0, vy = 0.1 * i, vz = 0, m = 1 / i} end
local function advance(dt)
    for i = 1, 5 do
        local a = bodies[i]
        for j = i + 1, 5 do
            local b = bodies[j]
            local dx, dy, dz = a.x - b.x, a.y - b.y, a.z - b.z
            local d2 = dx * dx + dy * dy + dz * dz + 0.01
            local mag = dt / (d2 * math.sqrt(d2))
            a.vx, a.vy, a.vz = a.vx - dx * b.m * mag, a.vy - dy * b.m * mag, a.vz - dz * b.m * mag
            b.vx, b.vy, b.vz = b.vx + dx * a.m * mag, b.vy + dy * a.m * mag, b.vz + dz * a.m * mag
        end
    end
    for i = 1, 5 do local b = bodies[i]; b.x, b.y, b.z = b.x + dt * b.vx, b.y + dt * b.vy, b.z + dt * b.vz end
end
for _ = 1, 2500000 do advance(0.001) end
local parts = {}
for i = 1, 300000 do parts[#parts + 1] = string.format("%x", i * 7919 % 65536) end
table.sort(parts)
print(string.format("%.6f %d", bodies[1].x, #table.concat(parts):gsub("a(%x)", "%1")))
