/*
 * What ipmi_sim lacks: a chassis whose state is files, DCMI power readings and limits, the ACPI state and the restore
 * policy.
 *
 * lan.conf: loadlib "/path/to/this.so" "/folder/of/this/bmc". The files of that folder, each with a word or a number:
 *   power   on or off; orders change it
 *   drops   so many orders are accepted and forgotten
 *   watts   what DCMI tells; no such file: DCMI is not supported; a negative number: the measurement is not active
 *   limit   the power limit in force, in watts; empty or no such file: none is active
 *   policy  0 stays off, 1 as before, 2 comes up, 3 unknown: after a power failure
 *   orders  every order that came, a line each
 *   log     what ipmi_sim has to say: sessions that were opened and closed
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <OpenIPMI/serv.h>
#include <OpenIPMI/mcserv.h>

static char folder[480];
static unsigned char power_limit[11];
static unsigned char acpi_system = 0x2a, acpi_device = 0x2a;

static FILE *open_file(const char *name, const char *mode)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, mode);
}

static int number_in(const char *name, int otherwise)
{
    FILE *file = open_file(name, "r");
    int number = otherwise;
    if (!file)
        return otherwise;
    if (fscanf(file, "%d", &number) != 1)
        number = otherwise;
    fclose(file);
    return number;
}

static void write_line(const char *name, const char *mode, const char *line)
{
    FILE *file = open_file(name, mode);
    if (file) {
        fprintf(file, "%s\n", line);
        fclose(file);
    }
}

static int is_on(void)
{
    char word[8] = "off";
    FILE *file = open_file("power", "r");
    if (file) {
        if (fscanf(file, "%7s", word) != 1)
            strcpy(word, "off");
        fclose(file);
    }
    return strcmp(word, "on") == 0;
}

static int get_chassis(lmc_data_t *mc, int what, unsigned char *value, void *data)
{
    *value = what == CHASSIS_CONTROL_POWER ? is_on() : 0;
    return 0;
}

static int set_chassis(lmc_data_t *mc, int what, unsigned char *value, void *data)
{
    int drops = number_in("drops", 0), on = what == CHASSIS_CONTROL_POWER && *value;
    char left[16];
    write_line("orders", "a", what == CHASSIS_CONTROL_GRACEFUL_SHUTDOWN ? "soft_off" : on ? "on" : "hard_off");
    if (drops > 0) {
        snprintf(left, sizeof left, "%d", drops - 1);
        write_line("drops", "w", left);
    } else
        write_line("power", "w", on ? "on" : "off");
    return 0;
}

static void chassis_status(lmc_data_t *mc, msg_t *request, unsigned char *answer, unsigned int *length, void *data)
{
    memset(answer, 0, 4);
    answer[1] = is_on() | number_in("policy", 0) << 5;
    *length = 4;
}

static void set_restore_policy(lmc_data_t *mc, msg_t *request, unsigned char *answer, unsigned int *length, void *data)
{
    char policy[4];
    answer[0] = request->len < 1 ? 0xc7 : 0;
    answer[1] = 7;
    *length = answer[0] ? 1 : 2;
    if (request->len >= 1 && (request->data[0] & 7) < 3) {
        snprintf(policy, sizeof policy, "%d", request->data[0] & 7);
        write_line("policy", "w", policy);
    }
}

/* DCMI v1.5, 6.6.2 to 6.6.4: the 11 bytes of a limit are its action, watts, correction time, 2 unused, sampling time. */
static void dcmi_limit(msg_t *request, unsigned char *answer, unsigned int *length)
{
    char watts[16] = "";
    answer[0] = 0;
    answer[1] = 0xdc;
    *length = 2;
    if (request->cmd == 3) {
        answer[0] = number_in("limit", 0) ? 0 : 0x80;
        answer[2] = answer[3] = 0;
        memcpy(answer + 4, power_limit, sizeof power_limit);
        *length = 15;
    } else if (request->cmd == 4 && request->len >= 15)
        memcpy(power_limit, request->data + 4, sizeof power_limit);
    else if (request->cmd == 5 && request->len >= 2) {
        if (request->data[1])
            snprintf(watts, sizeof watts, "%d", power_limit[1] | power_limit[2] << 8);
        write_line("limit", "w", watts);
    } else {
        answer[0] = 0xc7;
        *length = 1;
    }
}

static void dcmi(lmc_data_t *mc, msg_t *request, unsigned char *answer, unsigned int *length, void *data)
{
    int watts = number_in("watts", -100000), each;
    if (request->cmd >= 3 && request->cmd <= 5) {
        dcmi_limit(request, answer, length);
        return;
    }
    if (request->cmd != 2 || watts == -100000) {
        answer[0] = 0xc1;
        *length = 1;
        return;
    }
    memset(answer, 0, 19);
    answer[1] = 0xdc;
    for (each = 2; watts > 0 && each < 10; each += 2) {
        answer[each] = watts;
        answer[each + 1] = watts >> 8;
    }
    answer[18] = watts < 0 ? 0 : 0x40;
    *length = 19;
}

static void set_acpi_state(lmc_data_t *mc, msg_t *request, unsigned char *answer, unsigned int *length, void *data)
{
    answer[0] = request->len < 2 ? 0xc7 : 0;
    *length = 1;
    if (answer[0])
        return;
    if (request->data[0] & 0x80)
        acpi_system = request->data[0] & 0x7f;
    if (request->data[1] & 0x80)
        acpi_device = request->data[1] & 0x7f;
}

static void get_acpi_state(lmc_data_t *mc, msg_t *request, unsigned char *answer, unsigned int *length, void *data)
{
    answer[0] = 0;
    answer[1] = acpi_system;
    answer[2] = acpi_device;
    *length = 3;
}

static void log_line(sys_data_t *sys, int kind, msg_t *message, const char *format, ...)
{
    char line[256];
    va_list values;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    write_line("log", "a", line);
}

int ipmi_sim_module_print_version(sys_data_t *sys, char *options)
{
    printf("commands of offpeak's tests\n");
    return 0;
}

int ipmi_sim_module_init(sys_data_t *sys, const char *options)
{
    snprintf(folder, sizeof folder, "%s", options);
    sys->log = log_line;
    ipmi_emu_register_group_extension_handler(0xdc, dcmi, NULL);
    ipmi_emu_register_cmd_handler(0, 1, chassis_status, NULL);
    ipmi_emu_register_cmd_handler(0, 6, set_restore_policy, NULL);
    ipmi_emu_register_cmd_handler(6, 6, set_acpi_state, NULL);
    ipmi_emu_register_cmd_handler(6, 7, get_acpi_state, NULL);
    return 0;
}

int ipmi_sim_module_post_init(sys_data_t *sys)
{
    ipmi_mc_set_chassis_control_func(sys->mc, set_chassis, get_chassis, NULL);
    return 0;
}
